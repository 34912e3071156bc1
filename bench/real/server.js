// A server in Node: bodies read as JSON, answered packed; recent answers are kept.   server.js PORT
"use strict";
const http = require("http");
const zlib = require("zlib");

const recent = new Map();
const server = http.createServer((request, response) => {
  const n = Number(request.url.split("/").pop()) || 0;
  const rows = Array.from({ length: 120 }, (_, i) => (
    { id: n + i, name: `item ${n * i}`, tags: [`a${i % 7}`, `b${i % 11}`] }));
  const body = zlib.deflateSync(Buffer.from(JSON.stringify({ url: request.url, rows })), { level: 1 });
  recent.set(recent.size % 500, body);
  response.writeHead(200, { "Content-Type": "application/json", "Content-Length": body.length });
  response.end(body);
});
process.on("SIGTERM", () => process.exit(0));
server.listen(Number(process.argv[2]), "127.0.0.1");
