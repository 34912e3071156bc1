// Threads of node take blocks of one shared memory at once: node threads.mjs MODULE PAGES PAGES_MOST THREADS BLOCKS
// prints for each thread how many blocks it found damaged, or -1 if it trapped. The module is probe.rs with the feature
// `threads`.

import { readFileSync } from 'node:fs';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';

if (isMainThread) {
  const [file, ...numbers] = process.argv.slice(2);
  const [initial, maximum, threads, blocks] = numbers.map(Number);
  const module = new WebAssembly.Module(readFileSync(file));
  const memory = new WebAssembly.Memory({ initial, maximum, shared: true });
  const waiting = new Int32Array(new SharedArrayBuffer(4));
  waiting[0] = threads;
  const part = (number) => new Promise((resolve, reject) => {
    const worker = new Worker(new URL(import.meta.url), { workerData: { module, memory, waiting, number, blocks } });
    worker.on('message', resolve).on('error', reject);
  });
  console.log((await Promise.all(Array.from({ length: threads }, (_, number) => part(number)))).join(' '));
} else {
  const { module, memory, waiting, number, blocks } = workerData;
  const { exports } = new WebAssembly.Instance(module, { env: { memory } });
  exports.__stack_pointer.value -= number * 65536; // each its part of the one stack
  Atomics.sub(waiting, 0, 1);
  while (Atomics.load(waiting, 0) > 0);
  let wrong = -1;
  try {
    wrong = exports.share(number + 1, blocks);
  } catch (trap) {
    if (!(trap instanceof WebAssembly.RuntimeError)) throw trap;
  }
  parentPort.postMessage(wrong);
}
