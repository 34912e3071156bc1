// A worker of node with a stale length of memory: V8 reads the length when it begins to unpack the message that
// contains the memory, and updates it only after it has unpacked the whole message. The message is long, and memory
// grows in between.
//
//   node late.js MODULE STEPS    MODULE is threads.c; prints "stale ok", or the error, and exits with 0 or 1
const {
    Worker, isMainThread, parentPort, workerData, receiveMessageOnPort, MessageChannel,
} = require('node:worker_threads');
const STACK = 65536, OBJECTS = 300000;

function instantiate(module, memory) {
    return new WebAssembly.Instance(module, { env: { memory } }).exports;
}

if (!isMainThread) {
    const { module, port, place, stages, steps } = workerData;
    Atomics.store(stages, 0, 1);
    const { memory } = receiveMessageOnPort(port).message;
    Atomics.wait(stages, 0, 1); // until memory has grown
    const known = memory.buffer.byteLength;
    const exports = instantiate(module, memory);
    const tls = exports.__tls_align.value;
    exports.__wasm_init_tls(Math.ceil(place / tls) * tls);
    exports.__stack_pointer.value = place + STACK;
    parentPort.postMessage({ known, status: exports.work(1, steps) });
} else {
    const [, , file, steps] = process.argv;
    const module = new WebAssembly.Module(require('node:fs').readFileSync(file));
    const memory = new WebAssembly.Memory({ initial: 4, maximum: 2048, shared: true });
    const exports = instantiate(module, memory);
    const place = exports.place(STACK), stages = new Int32Array(new SharedArrayBuffer(4));
    const { port1, port2 } = new MessageChannel();
    port1.postMessage({ ballast: Array.from({ length: OBJECTS }, (_, i) => ({ i })), memory });
    const given = { module, port: port2, place, stages, steps: Number(steps) };
    const worker = new Worker(__filename, { workerData: given, transferList: [port2] });
    worker.on('error', (why) => { console.log(why); process.exit(1); });
    worker.on('message', ({ known, status }) => {
        console.log(known < memory.buffer.byteLength ? 'stale' : 'in time', status === 0 ? 'ok' : status);
        process.exit(status === 0 ? 0 : 1);
    });
    const reading = setInterval(() => {
        if (Atomics.load(stages, 0) === 1) {
            clearInterval(reading);
            Atomics.wait(stages, 0, 1, 20); // except on very slow machines, it is unpacking now
            exports.place(16 << 20);
            Atomics.store(stages, 0, 2);
            Atomics.notify(stages, 0);
        }
    }, 1);
}
