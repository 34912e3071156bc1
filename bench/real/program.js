// Node: JSON, maps, strings, regular expressions, buffers, zlib.   program.js ROUNDS
"use strict";
const zlib = require("zlib");
const crypto = require("crypto");

let seed = 12345;
const random = (n) => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % n;
const word = () => random(1 << 30).toString(36);

const digest = crypto.createHash("sha256");
const cache = new Map();
for (let round = 0; round < Number(process.argv[2]); round++) {
  const people = Array.from({ length: 2000 }, (_, id) => (
    { id, name: word(), tags: [word(), word()], at: { city: word() } }));
  const text = JSON.stringify(people);
  const back = JSON.parse(text).sort((a, b) => (a.name < b.name ? -1 : 1));
  const packed = zlib.deflateSync(Buffer.from(text), { level: 3 });
  digest.update(zlib.inflateSync(packed));
  for (let i = 0; i < 400; i++) {
    const body = Buffer.alloc(random(60000) + 100, i);
    body.writeUInt32LE(i, 0);
    cache.set("key" + random(300), Buffer.concat([body, Buffer.from(back[i].name)]));
  }
  digest.update(text.replace(/"name":"(\w+)"/g, (_, name) => name.toUpperCase()));
}
for (const [key, body] of [...cache].sort()) digest.update(key).update(body);
console.log(digest.digest("hex"), cache.size);
