// A failure as a value: every layer reports errors of the environment and of the media in this form. It travels in a
// `result<T>` (result.hpp). The api layer turns it into `holdfast::error` (C++) or an error code (C).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::base {

/// The values are part of the C interface (api/error.cpp asserts them): append only.
enum class failure_code : std::uint32_t {
    none = 0,
    invalid_argument,
    not_a_heap,               ///< the path exists and is no Holdfast heap
    version_unsupported,      ///< the library does not read this format version
    corrupt,                  ///< content of media breaks its checksum or an invariant
    missing,                  ///< a file of the heap does not exist
    already_exists,           ///< create, where something exists
    not_found,                ///< open, where nothing exists; an unknown name
    locked,                   ///< another process (or this one) has the heap open
    read_only,                ///< the heap or the file system is read-only
    permission,               ///< the file system refused access
    no_space,                 ///< the file system, a quota or the heap's own capacity is full
    address_taken,            ///< the heap's address range is occupied
    io,                       ///< a system call failed in another way
    type_mismatch,            ///< an object has another type or size
    name_exists,              ///< an object has the name already
    promise_unavailable,      ///< the storage cannot keep the durability asked for
    wrong_process,            ///< a child of fork used its parent's heap
    concurrent_modification,  ///< memory changed while commit() ran
    poisoned,                 ///< an earlier sync failed: nothing can be promised until the heap is reopened
    limit,                    ///< of the system or of the format
    out_of_memory,            ///< DRAM for the heap's own bookkeeping ran out
    bad_address,              ///< no start of an allocated block
    unsupported,              ///< the file system or kernel lacks an operation
};

/// As written above, for messages and JSON.
[[nodiscard]] std::string_view to_string(failure_code code) noexcept;

/// Empty strings are left out of the message.
struct failure {
    failure_code code = failure_code::none;
    std::string path;   ///< file or directory
    std::string field;  ///< the part of the file, or the operation
    std::string found;
    std::string expected;
    std::string hint;  ///< what to do, or more detail
    int os_error = 0;  ///< errno; 0: no system call failed

    /// "corrupt: /data/graph.hf/superblock: checksum of copy 1: found 0x.., expected 0x..: hint"
    [[nodiscard]] std::string message() const;
};

/// The code follows from errno (ENOSPC and EDQUOT: no_space, EACCES and EPERM: permission, ...).
[[nodiscard]] failure os_failure(int os_error, std::string_view operation, std::string_view path);

}  // namespace holdfast::base
