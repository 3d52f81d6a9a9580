#include "persist/domain.hpp"

#include <linux/mman.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/units.hpp"

// glibc 2.36 hides these where its headers come first.
#if !defined(MAP_SHARED_VALIDATE)
#define MAP_SHARED_VALIDATE 0x03
#endif
#if !defined(MAP_SYNC)
#define MAP_SYNC 0x080000
#endif

namespace holdfast::persist {

std::string_view to_string(domain_kind kind) noexcept {
    switch (kind) {
        case domain_kind::dax: return "dax";
        case domain_kind::eadr: return "eadr";
        case domain_kind::page_cache: return "page-cache";
        case domain_kind::emulated: return "emulated";
        case domain_kind::disk: return "disk";
    }
    return "unknown";
}

std::string_view to_string(flush_method method) noexcept {
    switch (method) {
        case flush_method::clwb: return "clwb";
        case flush_method::clflushopt: return "clflushopt";
        case flush_method::clflush: return "clflush";
        case flush_method::dc_cvap: return "dc cvap";
        case flush_method::dc_civac: return "dc civac";
    }
    return "unknown";
}

bool caches_are_persistent(const std::string& nd_devices) {
    std::error_code ignored;
    bool any = false;
    for (const auto& entry : std::filesystem::directory_iterator(nd_devices, ignored)) {
        if (!entry.path().filename().string().starts_with("region")) {
            continue;
        }
        std::string domain;
        std::ifstream{entry.path() / "persistence_domain"} >> domain;
        if (domain != "cpu_cache") {
            return false;
        }
        any = true;
    }
    return any;
}

int synchronous_mapping_flags() noexcept { return MAP_SHARED_VALIDATE | MAP_SYNC; }

base::result<domain_kind> detect_domain(int fd, const std::string& path) {
    // Never accessed, so the file may be shorter than a page.
    void* trial = ::mmap(nullptr, base::page_size, PROT_READ, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0);
    if (trial != MAP_FAILED) {
        ::munmap(trial, base::page_size);
        return caches_are_persistent() ? domain_kind::eadr : domain_kind::dax;
    }
    // EINVAL: a kernel before 4.15, without MAP_SHARED_VALIDATE.
    if (errno == EOPNOTSUPP || errno == EINVAL) {
        return domain_kind::page_cache;
    }
    return base::os_failure(errno, "mmap(MAP_SYNC)", path);
}

}  // namespace holdfast::persist
