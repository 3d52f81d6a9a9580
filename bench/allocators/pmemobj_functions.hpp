// libpmemobj of PMDK, where CMake found its headers; the library is loaded when it is needed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocators/shared_library.hpp"

#if HOLDFAST_BENCH_HAS_PMEMOBJ  // by CMake

#include <libpmemobj.h>

namespace bench {

/// Loaded when it is needed: it reads its environment when it is.
struct pmemobj_functions {
    explicit pmemobj_functions(const shared_library& library)
        : create(library.find<PMEMobjpool*(const char*, const char*, std::size_t, mode_t)>("pmemobj_create")),
          close(library.find<void(PMEMobjpool*)>("pmemobj_close")),
          root(library.find<PMEMoid(PMEMobjpool*, std::size_t)>("pmemobj_root")),
          direct(library.find<void*(PMEMoid)>("pmemobj_direct")),
          allocate(library.find<int(PMEMobjpool*, PMEMoid*, std::size_t, std::uint64_t, pmemobj_constr, void*)>(
              "pmemobj_alloc")),
          reallocate(library.find<int(PMEMobjpool*, PMEMoid*, std::size_t, std::uint64_t)>("pmemobj_realloc")),
          identifier(library.find<PMEMoid(const void*)>("pmemobj_oid")),
          release(library.find<void(PMEMoid*)>("pmemobj_free")),
          error_message(library.find<const char*()>("pmemobj_errormsg")) {}

    PMEMobjpool* (*create)(const char*, const char*, std::size_t, mode_t);
    void (*close)(PMEMobjpool*);
    PMEMoid (*root)(PMEMobjpool*, std::size_t);
    void* (*direct)(PMEMoid);
    int (*allocate)(PMEMobjpool*, PMEMoid*, std::size_t, std::uint64_t, pmemobj_constr, void*);
    int (*reallocate)(PMEMobjpool*, PMEMoid*, std::size_t, std::uint64_t);
    PMEMoid (*identifier)(const void*);
    void (*release)(PMEMoid*);
    const char* (*error_message)();
};

}  // namespace bench

#endif
