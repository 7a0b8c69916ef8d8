// Texts are those of the programs that print them.  A row that is more precise stands before one
// that takes in the same line.
#include "job/failure_table.h"

#include <algorithm>
#include <array>

#include "ascii.h"

namespace pergpu {
namespace {

// One row a line.
// clang-format off
using enum Sign;
constexpr FailureRow kTexts[] = {
    // A GPU that the job does not have.  Number 0 is not among them: who lacks that sees no GPU at
    // all, which may be the machine's fault; nor is PyTorch's "device < num_gpus INTERNAL ASSERT
    // FAILED", which a GPU that broke gives, too.
    {"invalid device ordinal", WrongGpu, "CUDA, and all that pass its error on"},
    {"CUDA_ERROR_INVALID_DEVICE", WrongGpu, "CUDA's driver"},
    {"AssertionError: Invalid device id$", WrongGpu, "PyTorch: get_device_properties(), DataParallel"},
    {"deserialize object on CUDA device #*torch.cuda.device_count() is #", WrongGpu, "PyTorch: torch.load()"},
    {"But your machine only has: [0", WrongGpu, "Lightning, below \"You requested gpu: [3]\""},
    {"GPU:# unknown device.", WrongGpu, "TensorFlow"},
    {"Could not satisfy device specification*GPU:#'", WrongGpu, "TensorFlow"},
    {"was explicitly assigned to /device:GPU:#", WrongGpu, "TensorFlow, in a graph"},
    {"was explicitly assigned to /job:*/device:GPU:# but", WrongGpu, "TensorFlow, in a graph"},
    {"'visible_device_list' listed an invalid*id '#", WrongGpu, "TensorFlow: set_visible_devices()"},

    // No GPU at all, which may be the machine's fault unless the job was to have none.
    {"No CUDA GPUs are available", NoGpu, "PyTorch"},
    {"no CUDA-capable device is detected", NoGpu, "CUDA, and all that pass its error on"},
    {"cudaErrorNoDevice", NoGpu, "CUDA: CuPy, RAPIDS, Thrust"},
    {"CUDA_ERROR_NO_DEVICE", NoGpu, "CUDA's driver: TensorFlow, JAX, Numba"},
    {"device but torch.cuda.is_available() is False", NoGpu, "PyTorch: torch.load()"},
    {"No supported gpu backend found", NoGpu, "Lightning: accelerator=\"gpu\""},
    {"no supported devices found for platform CUDA", NoGpu, "JAX"},
    {"'cuda' is not in the list of known backends", NoGpu, "JAX"},
    {"Unknown backend: 'gpu' requested", NoGpu, "JAX"},
    {"0 active drivers ([])", NoGpu, "Triton"},

    // Memory of a GPU.
    {"CUDA out of memory", GpuMemory, "PyTorch"},
    {"OutOfMemoryError: CUDA", GpuMemory, "PyTorch"},
    {"CUDA error: out of memory", GpuMemory, "PyTorch, beside other programs"},
    {"CUDA driver error: out of memory", GpuMemory, "PyTorch, with expandable segments"},
    {"cuda runtime error (2)", GpuMemory, "PyTorch before 1.2"},
    {"HIP out of memory", GpuMemory, "PyTorch on AMD"},
    {"HIP error: out of memory", GpuMemory, "PyTorch on AMD"},
    {"hipErrorOutOfMemory", GpuMemory, "HIP"},
    {"MPS backend out of memory", GpuMemory, "PyTorch on macOS"},
    {"magma*out of memory", GpuMemory, "MAGMA: PyTorch's linear algebra"},
    {"XPU out of memory", GpuMemory, "PyTorch on Intel"},
    {"UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY", GpuMemory, "oneAPI"},
    {"CUDA_ERROR_OUT_OF_MEMORY", GpuMemory, "CUDA's driver: TensorFlow, JAX, Numba, Taichi"},
    {"cudaErrorMemoryAllocation", GpuMemory, "CUDA: CuPy, RAPIDS, XGBoost, Thrust"},
    {"STATUS_ALLOC_FAILED", GpuMemory, "cuBLAS, cuDNN, cuSPARSE, cuSOLVER"},
    {"CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", GpuMemory, "cuDNN 9, ONNX Runtime"},
    {"CURAND_STATUS_ALLOCATION_FAILED", GpuMemory, "cuRAND"},
    {"CUFFT_ALLOC_FAILED", GpuMemory, "cuFFT"},
    {"OOM when allocating tensor*device:CPU", HostMemory, "TensorFlow on the CPU"},
    {"OOM when allocating tensor*allocator cpu", HostMemory, "TensorFlow on the CPU"},
    {"OOM when allocating tensor", GpuMemory, "TensorFlow"},
    {"Dst tensor is not initialized", GpuMemory, "TensorFlow, copying to a full GPU"},
    {"failed to allocate memory [Op:", GpuMemory, "TensorFlow, eagerly"},
    {"RESOURCE_EXHAUSTED: Out of memory allocating", HostMemory, "JAX on the CPU"},
    {"RESOURCE_EXHAUSTED: Out of memory", GpuMemory, "JAX, XLA"},
    {"RESOURCE_EXHAUSTED: Failed to allocate", GpuMemory, "JAX, XLA"},
    {"RESOURCE_EXHAUSTED: Attempting to allocate", GpuMemory, "JAX, XLA"},
    {"RESOURCE_EXHAUSTED:*Ran out of memory", GpuMemory, "JAX, XLA while compiling"},
    {"Out of memory while trying to allocate", GpuMemory, "TensorFlow with XLA"},
    {"Unable to find a valid cuDNN algorithm to run convolution", GpuMemory, "PyTorch, for want of memory"},
    {"cuMem*out of memory", GpuMemory, "PyCUDA"},
    {"cupy.cuda.memory.OutOfMemoryError", GpuMemory, "CuPy"},
    {"bad_alloc: out_of_memory", GpuMemory, "RAPIDS (RMM)"},
    {"Maximum pool size exceeded", GpuMemory, "RAPIDS (RMM)"},
    {"rmm::out_of_memory", GpuMemory, "RAPIDS (RMM)"},
    {"Failed to allocate memory for requested buffer of size", GpuMemory, "ONNX Runtime"},
    {"Available memory of*is smaller than requested bytes of", GpuMemory, "ONNX Runtime"},
    {"CUDA failure 2: out of memory", GpuMemory, "ONNX Runtime"},
    {"Triton Error [CUDA]: out of memory", GpuMemory, "Triton"},
    {"out of resource: ", GpuMemory, "Triton, of a multiprocessor's shared memory", true},
    {"No available memory for the cache blocks", GpuMemory, "vLLM"},
    {"larger than the available KV cache memory", GpuMemory, "vLLM"},
    {"maximum number of tokens that can be stored in KV cache", GpuMemory, "vLLM"},
    {"Free memory on device*less than desired GPU memory utilization", GpuMemory, "vLLM"},
    {"Not enough memory. Please try to increase --mem-fraction-static", GpuMemory, "SGLang"},
    {"Not enough memory to handle", GpuMemory, "text-generation-inference"},
    {"No executable batch size found", GpuMemory, "accelerate: find_executable_batch_size()"},
    {"Out of GPU memory trying to allocate", GpuMemory, "Julia: CUDA.jl, AMDGPU.jl"},
    {"memory_pool*Out of memory. Requested", GpuMemory, "CatBoost"},
    {"cudaMalloc*out of memory", GpuMemory, "llama.cpp, MXNet, Faiss"},
    {"failed to cudaMalloc", GpuMemory, "Faiss"},
    {"Cuda failure*out of memory", GpuMemory, "NCCL"},
    {"Cuda Runtime (out of memory)", GpuMemory, "TensorRT"},
    {"Error Code 2: OutOfMemory", GpuMemory, "TensorRT"},
    {"Out of memory error on GPU", GpuMemory, "PaddlePaddle"},
    {"CUDA*out of memory", GpuMemory, "CTranslate2, Warp and others", true},
    {"cuda*out of memory", GpuMemory, "others", true},
    {"GPU*out of memory", GpuMemory, "others", true},

    // Memory of the machine.
    {"can't allocate memory: you tried to allocate", HostMemory, "PyTorch on the CPU"},
    {"not enough memory: you tried to allocate", HostMemory, "PyTorch on the CPU of Windows and macOS"},
    {"DataLoader worker (pid*is killed by signal: Killed", HostMemory, "PyTorch"},
    {"The exit codes of the workers are {SIGKILL(-9)", HostMemory, "joblib"},
    {"_exceptions._ArrayMemoryError", HostMemory, "NumPy 1 and 2"},
    {"std::bad_alloc", HostMemory, "C++"},
    {"java.lang.OutOfMemoryError", HostMemory, "Java, Spark"},
    {"insufficient memory for the Java Runtime Environment", HostMemory, "Java"},
    {"Could not reserve enough space for*object heap", HostMemory, "Java"},
    {"os::commit_memory*failed; error='Not enough space'", HostMemory, "Java"},
    {"JavaScript heap out of memory", HostMemory, "Node.js"},
    {"cannot allocate vector of size", HostMemory, "R"},
    {"cannot allocate memory block of size", HostMemory, "R"},
    {"vector memory limit of*reached, see mem.maxVSize()", HostMemory, "R"},
    {"OutOfMemoryError()", HostMemory, "Julia"},
    {"runtime: out of memory", HostMemory, "Go"},
    {"fatal error: out of memory", HostMemory, "Go"},
    {"memory allocation of # bytes failed", HostMemory, "Rust, Polars"},
    {"System.OutOfMemoryException", HostMemory, ".NET"},
    {"ray.exceptions.OutOfMemoryError", HostMemory, "Ray"},
    {"Cannot allocate memory", HostMemory, "libc: fork, mmap, shells"},
    {"Killed signal terminated program", HostMemory, "GCC"},
    {"virtual memory exhausted", HostMemory, "compilers, GNU programs"},
    {"memory exhausted", HostMemory, "GNU programs", true},
    {"^Out of memory", HostMemory, "Perl, MATLAB and others", true},
    {"exceeds maximum array size preference", HostMemory, "MATLAB"},
    {"oom_kill event", HostMemory, "Slurm"},
    {"killed by YARN for exceeding*memory limits", HostMemory, "Spark"},

    // What broke, and what does not fit.
    {"uncorrectable ECC error", Hardware, "CUDA"},
    {"cudaErrorECCUncorrectable", Hardware, "CUDA"},
    {"uncorrectable NVLink error", Hardware, "CUDA"},
    {"GPU is lost", Hardware, "NVML", true},
    {"has fallen off the bus", Hardware, "NVIDIA's driver"},
    {"cudaErrorDevicesUnavailable", Hardware, "CUDA"},
    {"CUDA driver version is insufficient", Driver, "CUDA"},
    {"Driver/library version mismatch", Driver, "NVML"},
    {"unsupported display driver / cuda driver combination", Driver, "CUDA"},
    {"cudaErrorSystemNotReady", Driver, "CUDA"},

    // Processes and threads, of which the machine has no more to give.
    {": Cannot fork", NoProcess, "dash"},
    {"fork*Resource temporarily unavailable", NoProcess, "bash, BusyBox, make, git"},
    {"fork failed: resource temporarily unavailable", NoProcess, "zsh"},
    {"Thread creation failed: Resource temporarily unavailable", NoProcess, "OpenMP of GCC"},
    {"thread*Resource temporarily unavailable", NoProcess, "OpenBLAS, Rust"},
    {"can't start new thread", NoProcess, "Python"},
    {"failed to create new OS thread", NoProcess, "Go"},

    // Disks.
    {"No space left on device", DiskFull, "libc"},
    {"Disk quota exceeded", DiskFull, "libc"},
    {"Read-only file system", DiskFull, "libc"},
    {"Stale file handle", DiskFull, "libc, of NFS"},
    {"database or disk is full", DiskFull, "SQLite"},
    {"PytorchStreamWriter failed writing file", DiskFull, "PyTorch: torch.save()"},
    {"inline_container.cc:*unexpected pos", DiskFull, "PyTorch: torch.save()"},

    // Networks and servers.
    {"Name or service not known", Outage, "libc"},
    {"Temporary failure in name resolution", Outage, "libc"},
    {"No address associated with hostname", Outage, "libc"},
    {"Could not resolve host", Outage, "curl, git, ssh"},
    {"Could not resolve proxy", Outage, "curl, git"},
    {"unable to resolve host address", Outage, "wget"},
    {"Failed to resolve", Outage, "urllib3"},
    {"Failed to connect to", Outage, "curl, git, gRPC"},
    {"Failed to establish a new connection", Outage, "urllib3"},
    {"Max retries exceeded with url", Outage, "urllib3, requests"},
    {"Read timed out", Outage, "urllib3, requests"},
    {"Connection refused", Outage, "libc"},
    {"Connection reset by peer", Outage, "libc"},
    {"connection refused", Outage, "Go: wandb, gcsfuse, rclone"},
    {"connection reset by peer", Outage, "Go"},
    {"no such host", Outage, "Go"},
    {"i/o timeout", Outage, "Go"},
    {"Connection timed out", Outage, "libc"},
    {"Network is unreachable", Outage, "libc"},
    {"No route to host", Outage, "libc"},
    {"Host is down", Outage, "libc"},
    {"Transport endpoint is not connected", Outage, "libc, of FUSE: sshfs, gcsfuse, GlusterFS"},
    {"Remote I/O error", Outage, "libc, of NFS"},
    {"Cannot connect to host", Outage, "aiohttp"},
    {"Server disconnected", Outage, "httpx, aiohttp"},
    {"Remote end closed connection without response", Outage, "http.client"},
    {"EOF occurred in violation of protocol", Outage, "OpenSSL"},
    {"the remote end hung up unexpectedly", Outage, "git"},
    {"RPC failed; ", Outage, "git"},
    {"early EOF", Outage, "git"},
    {"curl: (6)", Outage, "curl"},
    {"curl: (7)", Outage, "curl"},
    {"curl: (28)", Outage, "curl"},
    {"curl: (35)", Outage, "curl"},
    {"curl: (52)", Outage, "curl"},
    {"curl: (56)", Outage, "curl"},
    {"Could not connect to the endpoint URL", Outage, "boto3, aws"},
    {"trying to locate the file on the Hub", Outage, "huggingface_hub"},
    {"trying to locate the files on the Hub", Outage, "huggingface_hub"},
    {"We couldn't connect to 'http", Outage, "transformers"},
    {"Couldn't reach 'http", Outage, "datasets"},
    {"Couldn't reach http", Outage, "datasets"},
    {"502 Server Error", Outage, "requests"},
    {"503 Server Error", Outage, "requests"},
    {"504 Server Error", Outage, "requests"},
    {"500 Server Error", Outage, "requests"},
    {"429 Client Error", Outage, "requests"},
    {"Server error '5", Outage, "httpx"},
    {"429 Too Many Requests", Outage, "httpx"},
    {"HTTP Error 5", Outage, "urllib"},
    {"HTTP Error 429", Outage, "urllib"},
    {"502 Bad Gateway", Outage, "servers"},
    {"503 Service Unavailable", Outage, "servers"},
    {"504 Gateway Time", Outage, "servers"},
    {"The requested URL returned error: 5", Outage, "curl, git"},
    {"StatusCode.UNAVAILABLE", Outage, "gRPC"},
    {"rsync error: error in socket IO", Outage, "rsync"},
    {"rsync error: timeout in data", Outage, "rsync"},

    // Mistakes in a configuration, which programs say without a traceback.
    {"^Could not override '", Mistake, "Hydra"},
    {"^Could not append to config", Mistake, "Hydra"},
    {"^In '*': Could not find '", Mistake, "Hydra"},
    {"^You must specify '", Mistake, "Hydra"},

    // What Python is asked to execute isn't there.
    {": Error while finding module specification for '", Mistake, "Python: -m"},
    {"python*: No module named ", Mistake, "Python: -m"},
    {"pypy*: No module named ", Mistake, "PyPy: -m"},
    {"python*: can't find '__main__' module in ", Mistake, "Python, of a folder"},

    // These say that a child failed.
    {"initialization failed. See root cause above", Child, "vLLM"},
    {"See stack trace for the root cause", Child, "vLLM"},

    // What nothing above knows.
    {"^Error: ", Reason, "R, click, Node.js"},
    {"^Error in ", Reason, "R"},
    {"^ERROR: ", Reason, "Julia, pip"},
    {"^error: ", Reason, "git, Rust, compilers"},
    {"^fatal: ", Reason, "git"},
    {"^Fatal Python error: ", Reason, "Python"},
    {"^Exception in thread \"main\"", Reason, "Java"},
    {"^Caused by: ", Reason, "Java"},
    {"^panic: ", Reason, "Go"},
    {"^thread '*panicked at ", Reason, "Rust"},
    {"^terminate called after throwing", Reason, "C++"},
    {"^ *what():  ", Reason, "C++"},
};

constexpr FailureRow kExceptions[] = {
    // A second start doesn't fix these.
    {"AttributeError", Mistake, "Python"},
    {"FileNotFoundError", Mistake, "Python"},
    {"ImportError", Mistake, "Python"},
    {"IndentationError", Mistake, "Python"},
    {"IsADirectoryError", Mistake, "Python"},
    {"KeyError", Mistake, "Python"},
    {"ModuleNotFoundError", Mistake, "Python"},
    {"NameError", Mistake, "Python"},
    {"NotADirectoryError", Mistake, "Python"},
    {"NotImplementedError", Mistake, "Python"},
    {"PermissionError", Mistake, "Python"},
    {"SyntaxError", Mistake, "Python"},
    {"TabError", Mistake, "Python"},
    {"TypeError", Mistake, "Python"},
    {"UnboundLocalError", Mistake, "Python"},
    {"hydra.errors.*", Mistake, "Hydra"},
    {"omegaconf.errors.*", Mistake, "OmegaConf"},
    {"torch.OutOfMemoryError", GpuMemory, "PyTorch"},
    {"torch.cuda.OutOfMemoryError", GpuMemory, "PyTorch"},
    {"tensorflow.*.ResourceExhaustedError", GpuMemory, "TensorFlow"},
    {"MemoryError", HostMemory, "Python"},
    {"*.OutOfMemoryException", HostMemory, "DuckDB"},
    {"*.ArrowMemoryError", HostMemory, "PyArrow"},
    {"distributed.scheduler.KilledWorker", HostMemory, "Dask"},
    {"numpy.*.MemoryError", HostMemory, "NumPy before 1.18"},
    {"ConnectionError", Outage, "Python, datasets"},
    {"ConnectionAbortedError", Outage, "Python"},
    {"ConnectionRefusedError", Outage, "Python"},
    {"ConnectionResetError", Outage, "Python"},
    {"TimeoutError", Outage, "Python"},
    {"socket.*", Outage, "Python"},
    {"ssl.SSL*Error", Outage, "Python"},
    {"urllib.error.URLError", Outage, "Python"},
    {"urllib.error.ContentTooShortError", Outage, "Python"},
    {"http.client.*", Outage, "Python"},
    {"requests.exceptions.ConnectionError", Outage, "requests"},
    {"requests.exceptions.*Timeout", Outage, "requests"},
    {"requests.exceptions.SSLError", Outage, "requests"},
    {"requests.exceptions.ProxyError", Outage, "requests"},
    {"requests.exceptions.RetryError", Outage, "requests"},
    {"requests.exceptions.ChunkedEncodingError", Outage, "requests"},
    {"urllib3.exceptions.*", Outage, "urllib3"},
    {"httpx.*Timeout", Outage, "httpx"},
    {"httpx.ConnectError", Outage, "httpx"},
    {"httpx.ReadError", Outage, "httpx"},
    {"httpx.*ProtocolError", Outage, "httpx"},
    {"httpx.ProxyError", Outage, "httpx"},
    {"httpcore.*", Outage, "httpx"},
    {"aiohttp.client_exceptions.Client*Error", Outage, "aiohttp"},
    {"aiohttp.client_exceptions.Server*Error", Outage, "aiohttp"},
    {"huggingface_hub.*.LocalEntryNotFoundError", Outage, "huggingface_hub"},
    {"huggingface_hub.*.FileMetadataError", Outage, "huggingface_hub"},
    {"wandb.*.CommError", Outage, "wandb"},
    {"botocore.exceptions.*ConnectionError", Outage, "boto3"},
    {"botocore.exceptions.*TimeoutError", Outage, "boto3"},
    {"botocore.exceptions.ConnectionClosedError", Outage, "boto3"},
    {"botocore.exceptions.*StreamingError", Outage, "boto3"},
    {"google.api_core.exceptions.ServiceUnavailable", Outage, "Google Cloud"},
    {"google.api_core.exceptions.DeadlineExceeded", Outage, "Google Cloud"},
    {"google.api_core.exceptions.RetryError", Outage, "Google Cloud"},
    {"google.api_core.exceptions.TooManyRequests", Outage, "Google Cloud"},
    {"google.api_core.exceptions.*GatewayTimeout", Outage, "Google Cloud"},
    {"google.api_core.exceptions.InternalServerError", Outage, "Google Cloud"},
    {"google.auth.exceptions.TransportError", Outage, "Google Cloud"},
    {"gcsfs.retry.HttpError", Outage, "gcsfs"},
    {"azure.core.exceptions.Service*Error", Outage, "Azure"},
    {"openai.API*Error", Outage, "OpenAI"},
    {"openai.RateLimitError", Outage, "OpenAI"},
    {"redis.exceptions.ConnectionError", Outage, "redis"},
    {"redis.exceptions.TimeoutError", Outage, "redis"},
    {"pymongo.errors.ServerSelectionTimeoutError", Outage, "MongoDB"},
    {"paramiko.ssh_exception.*", Outage, "paramiko"},

    // These say that a child failed.
    {"torch.distributed.elastic.*.ChildFailedError", Child, "torchrun"},
    {"torch.multiprocessing.spawn.Process*Exception", Child, "PyTorch"},
    {"subprocess.CalledProcessError", Child, "accelerate, DeepSpeed, Python"},
    {"concurrent.futures.process.BrokenProcessPool", Child, "Python"},
};

constexpr FailureRow kShells[] = {
    {": command not found$", Shell, "bash"},
    {": not found$", Shell, "dash, busybox, ksh, mksh"},
    {": not found [No such file or directory]$", Shell, "ksh93"},
    {"command not found: ", Shell, "zsh"},
    {"Unknown command", Shell, "fish"},
    {": Permission denied$", Shell, "bash, dash, busybox"},
    {"permission denied: ", Shell, "zsh"},
    {": Is a directory$", Shell, "bash, mksh"},
    {"cannot execute", Shell, "bash, ksh"},
    {"Exec format error", Shell, "bash, dash"},
    {"bad interpreter", Shell, "bash, zsh"},
    {"exec format error", Shell, "zsh, Go, Docker"},
    {"inaccessible or not found$", Shell, "mksh"},
    {": No such file or directory$", Shell, "bash, env, nohup, timeout, nice, xargs"},
    {"no such file or directory: ", Shell, "zsh"},
    {"error while loading shared libraries: ", Shell, "ld.so"},
    {"symbol lookup error: ", Shell, "ld.so"},
    {"executable file not found in $PATH", Shell, "Docker, Podman, Singularity"},
    // In other languages than English.
    {"^bash: ", Shell, "bash"},
    {"^sh: ", Shell, "bash, busybox"},
    {"^/bin/sh: ", Shell, "dash, bash"},
    {"^/bin/bash: ", Shell, "bash"},
    {": line #: ", Shell, "bash"},
    {"^env: ", Shell, "env"},
};
// clang-format on

/// How `part`, in which # is a number from 1 on, stands at `at`: its end; npos: it does not.
std::size_t end_of_part(std::string_view part, std::string_view line, std::size_t at) {
  for (const char c : part) {
    if (at >= line.size()) return std::string_view::npos;
    if (c == '#') {
      if (line[at] < '1' || line[at] > '9') return std::string_view::npos;
      while (at < line.size() && is_digit(line[at])) ++at;
    } else if (line[at++] != c) {
      return std::string_view::npos;
    }
  }
  return at;
}

/// The end of the first place from `from` on where `part` stands.
std::size_t find_part(std::string_view part, std::string_view line, std::size_t from) {
  if (part.find('#') == std::string_view::npos) {
    const std::size_t at = line.find(part, from);
    return at == std::string_view::npos ? at : at + part.size();
  }
  for (std::size_t at = from; at < line.size(); ++at) {
    if (const std::size_t end = end_of_part(part, line, at); end != std::string_view::npos) {
      return end;
    }
  }
  return std::string_view::npos;
}

bool matches(std::string_view words, std::string_view line, bool at_begin, bool at_end) {
  std::size_t at = 0;
  for (bool is_first = true;; is_first = false) {
    const std::size_t star = words.find('*');
    const std::string_view part = words.substr(0, star);
    const bool is_last = star == std::string_view::npos;
    if (is_last && at_end) {
      if (is_first && at_begin) return line == part;
      return line.size() >= at + part.size() && line.ends_with(part);
    }
    at = is_first && at_begin ? end_of_part(part, line, at) : find_part(part, line, at);
    if (at == std::string_view::npos) return false;
    if (is_last) return true;
    words.remove_prefix(star + 1);
  }
}

}  // namespace

std::span<const FailureRow> text_rows() { return kTexts; }
std::span<const FailureRow> exception_rows() { return kExceptions; }
std::span<const FailureRow> shell_rows() { return kShells; }

bool matches_text(std::string_view words, std::string_view line) {
  const bool at_begin = words.starts_with('^');
  const bool at_end = words.ends_with('$');
  if (at_begin) words.remove_prefix(1);
  if (at_end) words.remove_suffix(1);
  return matches(words, line, at_begin, at_end);
}

bool matches_name(std::string_view words, std::string_view name) {
  return matches(words, name, true, true);
}

}  // namespace pergpu
