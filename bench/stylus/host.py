"""The host functions of an Arbitrum Stylus node (`vm_hooks`), for a chain that is empty at first.

    chain = Chain()
    done = chain.call("contract.wasm", chain.abi("mint(uint256)", 1000))
    done.status, done.output, done.program.ink, done.program.host_ink, done.log

Storage is zero until it is written, and stays from call to call; a failed call changes nothing in it. Each call is a
transaction of its own: new memory, cold storage. The functions' effects and prices are the node's
(github.com/OffchainLabs/nitro at 6dce8d13, looked up on 2026-11-21: crates/wasm-libraries/user-host-trait/lib.rs,
crates/arbutil/src/pricing.rs and src/evm/, for ArbOS 32 and later), and Ethereum's for storage (EIP-2929, EIP-2200).
Left out: refunds, calls of other contracts, and the price of a transaction as such.
"""

import collections

import ink

# ink: any call to the host, a pointer argument, a query to the chain
HOST_CALL, POINTER, API = ink.HOST_CALL, 5_040, 59_673
COLD_SLOT, WARM_SLOT, NEW_VALUE, OTHER_VALUE = 2100, 100, 20_000, 2900  # gas
LOG_TOPIC, LOG_BYTE = 375, 8  # gas

SENDER = bytes.fromhex("00000000000000000000000000000000000a11ce")
Done = collections.namedtuple("Done", "status output program log")


# ---- keccak-256
# -------------------------------------------------------------------------------------------------------

def rotated(word, by):
    return (word << by | word >> (64 - by)) & (1 << 64) - 1 if by else word


def permuted(lane):
    """Keccak-f[1600] on {(x, y): 64 bits}, after FIPS 202, section 3.3. The register gives the round constants."""
    register = 1
    for _ in range(24):
        column = [lane[x, 0] ^ lane[x, 1] ^ lane[x, 2] ^ lane[x, 3] ^ lane[x, 4] for x in range(5)]
        for x, y in lane:
            lane[x, y] ^= column[x - 1] ^ rotated(column[(x + 1) % 5], 1)
        x, y, carried = 1, 0, lane[1, 0]
        for t in range(24):
            x, y = y, (2 * x + 3 * y) % 5
            carried, lane[x, y] = lane[x, y], rotated(carried, (t + 1) * (t + 2) // 2 % 64)
        old = dict(lane)
        for x, y in lane:
            lane[x, y] = old[x, y] ^ ~old[(x + 1) % 5, y] & old[(x + 2) % 5, y]
        for j in range(7):
            if register & 1:
                lane[0, 0] ^= 1 << (1 << j) - 1
            register = register << 1 ^ (0x171 if register & 0x80 else 0)
    return lane


def keccak256(data, suffix=b"\x01"):
    """With the suffix 6 it is SHA3-256."""
    rate = 136
    padded = bytearray(data + suffix + bytes(-(len(data) + 1) % rate))
    padded[-1] |= 0x80
    lane = {(x, y): 0 for x in range(5) for y in range(5)}
    for start in range(0, len(padded), rate):
        for i in range(rate // 8):
            lane[i % 5, i // 5] ^= int.from_bytes(padded[start + 8 * i : start + 8 * i + 8], "little")
        permuted(lane)
    return b"".join(lane[x, 0].to_bytes(8, "little") for x in range(4))


# ---- the chain
# --------------------------------------------------------------------------------------------------------

class Exit(Exception):
    """exit_early."""


class Call:
    """One call of a contract: its host functions are the methods that have the names of vm_hooks'."""

    def __init__(self, storage, sender, calldata):
        self.storage, self.sender, self.calldata = storage, sender, calldata
        self.output, self.log, self.seen = b"", [], []
        self.cache, self.touched, self.reads, self.writes = {}, set(), 0, 0
        self.known = {}  # the chain's values that this call has read or written

    NAMES = ("read_args", "write_result", "exit_early", "storage_load_bytes32", "storage_cache_bytes32",
             "storage_flush_cache", "msg_sender", "msg_value", "msg_reentrant", "emit_log", "native_keccak256")

    def imports(self):
        def noted(name):
            def function(program, *arguments):
                self.seen.append((name, *arguments))
                return getattr(self, name)(program, *arguments)
            return function
        return {("vm_hooks", name): noted(name) for name in self.NAMES}

    @staticmethod
    def to_guest(size):
        return 5_040 + 30 * max(0, size - 32)

    @staticmethod
    def from_guest(size):
        return 16_381 + 55 * max(0, size - 32)

    def read_args(self, program, to):
        program.pay(HOST_CALL + self.to_guest(len(self.calldata)))
        program.write(to, self.calldata)

    def write_result(self, program, at, size):
        program.pay(HOST_CALL + 2 * self.from_guest(size))
        self.output = program.read(at, size)

    def exit_early(self, _, status):
        raise Exit(status)

    def storage_load_bytes32(self, program, key_at, to):
        program.pay(HOST_CALL + 2 * POINTER)
        key = program.read(key_at, 32)
        self.reads += 1
        gas = 0 if self.reads <= 32 else 2 if self.reads <= 128 else 10
        if key not in self.cache:
            gas += (WARM_SLOT if key in self.touched else COLD_SLOT) + API // ink.INK
            self.touched.add(key)
            self.cache[key] = self.known[key] = self.storage.get(key, bytes(32))
        program.pay(gas * ink.INK)
        program.write(to, self.cache[key])

    def storage_cache_bytes32(self, program, key_at, value_at):
        program.pay(HOST_CALL + 2 * POINTER)
        self.writes += 1
        program.pay((0 if self.writes <= 8 else 7 if self.writes <= 64 else 10) * ink.INK)
        self.cache[program.read(key_at, 32)] = program.read(value_at, 32)

    def storage_flush_cache(self, program, clear):
        program.pay(HOST_CALL + API)
        for key, value in self.cache.items():
            if self.known.get(key) == value:
                continue
            old = self.storage.get(key, bytes(32))
            gas = 0 if key in self.touched else COLD_SLOT
            gas += WARM_SLOT if old == value else OTHER_VALUE if any(old) else NEW_VALUE
            program.pay(gas * ink.INK)
            self.touched.add(key)
            self.storage[key] = self.known[key] = value
        if clear:
            self.cache.clear()

    def msg_sender(self, program, to):
        program.pay(HOST_CALL + POINTER)
        program.write(to, self.sender)

    def msg_value(self, program, to):
        program.pay(HOST_CALL + POINTER)
        program.write(to, bytes(32))

    def msg_reentrant(self, program):
        program.pay(HOST_CALL)
        return 0

    def emit_log(self, program, at, size, topics):
        program.pay(HOST_CALL + API)
        if topics > 4 or size < 32 * topics:
            raise ValueError("a log with wrong topics")
        program.pay(self.from_guest(size))
        program.pay((LOG_TOPIC * (1 + topics) + LOG_BYTE * (size - 32 * topics)) * ink.INK)
        data = program.read(at, size)
        self.log.append(([data[32 * i : 32 * i + 32] for i in range(topics)], data[32 * topics :]))

    def native_keccak256(self, program, at, size, to):
        program.pay(121_800 + 21_000 * max(0, (size + 31) // 32 - 2))
        program.write(to, keccak256(program.read(at, size)))


class Chain:
    def __init__(self):
        self.storage = {}

    def call(self, wasm, calldata, sender=SENDER, **options):
        call = Call(dict(self.storage), sender, calldata)
        program = ink.Metered(wasm, imports=call.imports(), **options)
        try:
            status = program.call("user_entrypoint", len(calldata))
        except Exit as end:
            status = end.args[0]
        if status == 0:
            self.storage = call.storage
        return Done(status, call.output, program, call.log if status == 0 else [])

    @staticmethod
    def abi(signature, *values):
        """Calldata: the selector, words for integers and addresses, and then `bytes`."""
        head, tail = [], b""
        for value in values:
            if isinstance(value, int):
                head.append(value.to_bytes(32, "big"))
            elif len(value) == 20:
                head.append(value.rjust(32, b"\0"))
            else:
                head.append((32 * len(values) + len(tail)).to_bytes(32, "big"))
                tail += len(value).to_bytes(32, "big") + value + bytes(-len(value) % 32)
        return keccak256(signature.encode())[:4] + b"".join(head) + tail
