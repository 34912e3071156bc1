// Runs threads.c in node: each worker is an instance of its own in one shared memory.
//
//   node threads.js MODULE WORKERS STEPS         prints "ok", or the error, and exits with 0 or 1
//   node threads.js MODULE WORKERS STEPS spin    the same, but no worker ever sleeps
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const STACK = 65536;

function instantiate(module, memory) {
    return new WebAssembly.Instance(module, { env: { memory } }).exports;
}

function failed(why) {
    console.log(why);
    process.exit(1); // others may wait without end for a lock whose holder is gone
}

if (!isMainThread) {
    const { module, memory, number, steps, place, spin } = workerData;
    const exports = instantiate(module, memory);
    const tls = exports.__tls_align.value;
    exports.__wasm_init_tls(Math.ceil(place / tls) * tls);
    exports.__stack_pointer.value = place + STACK;
    if (spin)
        exports.wait(0);
    parentPort.postMessage(exports.work(number, steps));
} else {
    const [, , file, workers, steps, spin] = process.argv;
    const module = new WebAssembly.Module(require('node:fs').readFileSync(file));
    const memory = new WebAssembly.Memory({ initial: 4, maximum: 2048, shared: true });
    const exports = instantiate(module, memory);
    let running = Number(workers);
    for (let number = 0; number < workers; number++) {
        const place = exports.place(STACK); // the stack grows down from its end, towards the thread-local variables
        const data = { module, memory, number, steps: Number(steps), place, spin };
        const worker = new Worker(__filename, { workerData: data });
        worker.on('error', failed);
        worker.on('message', (status) => {
            if (status !== 0)
                failed(`worker ${number}: ${status}`);
            if (--running === 0) {
                const finished = exports.finish(Number(workers), STACK);
                if (finished !== 0)
                    failed(`finish: ${finished}`);
                console.log('ok');
            }
        });
    }
}
