"""A program on a GPU without a framework: memory and kernels by the driver's library.

    python3 cuda.py GIB [spin SECONDS | spins NUMBER SECONDS | bad | sleep SECONDS | term | orphan FILE [exec]]…

Takes so much memory on the first visible GPU and says how many multiprocessors it may use, and "ready"; then, one after
the other: a kernel of so many seconds, or a number of them; a kernel that writes where nothing is; a pause; a handler
for SIGTERM; or a child that keeps the GPU's files open and sleeps (its pid goes into the file), out of the reach of
whoever ends this program; with `exec` the child becomes another program.
"""
import ctypes
import os
import signal
import sys
import time

PTX = b"""
.version 6.3
.target sm_75
.address_size 64
.visible .entry spin(.param .u64 limit) {
  .reg .u64 %t<4>;
  .reg .pred %p;
  ld.param.u64 %t0, [limit];
  mov.u64 %t1, %globaltimer;
again:
  mov.u64 %t2, %globaltimer;
  sub.u64 %t3, %t2, %t1;
  setp.lt.u64 %p, %t3, %t0;
  @%p bra again;
  ret;
}
.visible .entry bad() {
  .reg .u64 %a;
  .reg .u32 %v;
  mov.u64 %a, 64;
  mov.u32 %v, 1;
  st.global.u32 [%a], %v;
  ret;
}
"""
cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        sys.exit(f"CUDA error: {name}: {(text.value or b'?').decode()} ({code})")


def launch(module, kernel, *values):
    function = ctypes.c_void_p()
    call("cuModuleGetFunction", ctypes.byref(function), module, kernel)
    held = [ctypes.c_uint64(value) for value in values]
    arguments = (ctypes.c_void_p * max(1, len(held)))(*(ctypes.addressof(v) for v in held))
    call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None)
    call("cuCtxSynchronize")


def orphan(path):
    """As a worker of a data loader that outlives its program: forked from a process that uses CUDA."""
    pid = os.fork()
    if pid:
        with open(path, "w") as file:
            file.write(str(pid))
        return
    os.setsid()
    for line in open("/proc/self/cgroup"):
        group = line.strip().split(":")[1:]
        mount = "/sys/fs/cgroup" + ("/" + group[0] if group[0] else "")
        for root in (mount, "/sys/fs/cgroup/unified"):
            try:
                with open(root + "/cgroup.procs", "w") as procs:
                    procs.write("0")
            except OSError:
                pass
    quiet = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(quiet, fd)
    os.execve("/bin/sleep", ["sleep", "1000"], {}) if "exec" in sys.argv else time.sleep(1000)
    os._exit(0)


def main():
    words = sys.argv[2:]
    device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), PTX)
    if float(sys.argv[1]):
        address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(int(float(sys.argv[1]) * 2**30)))
    count = ctypes.c_int()
    call("cuDeviceGetAttribute", ctypes.byref(count), 16, device)
    print(f"{count.value} multiprocessors, ready", flush=True)
    while words:
        word = words.pop(0)
        if word == "spin":
            launch(module, b"spin", int(float(words.pop(0)) * 1e9))
        elif word == "spins":
            for _ in range(int(words.pop(0))):
                launch(module, b"spin", int(float(words[0]) * 1e9))
            words.pop(0)
        elif word == "term":
            signal.signal(signal.SIGTERM, lambda *_: print("SIGTERM", flush=True))
        elif word == "bad":
            launch(module, b"bad")
        elif word == "sleep":
            time.sleep(float(words.pop(0)))
        elif word == "orphan":
            orphan(words.pop(0))


main()
