#include "allocators/shared_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "allocators/allocation_run.hpp"

namespace bench {

shared_library::shared_library(const char* file, const char* package)
    : file_(file), handle_(::dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
        throw backend_unavailable(
            fmt::format("{} cannot be loaded ({}): install the package {}", file, ::dlerror(), package));
    }
}

void* shared_library::find_symbol(const char* name) const {
    void* const symbol = ::dlsym(handle_, name);
    if (symbol == nullptr) {
        throw backend_unavailable(fmt::format("{} has no {}: another version is needed", file_, name));
    }
    return symbol;
}

}  // namespace bench
