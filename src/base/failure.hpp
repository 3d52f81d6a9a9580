// What went wrong, as a value: the one form in which every layer reports an error of the environment or of the media.
//
// A failure names the path, the field, what was found and what was expected, and what the caller can do. It is never
// dropped: it travels in a `result<T>` (result.hpp), which the compiler refuses to ignore. The api layer turns it into
// `holdfast::error` (C++) or an error code (C).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::base {

/// The kinds of failure. The order is part of the C face (api/include/holdfast/error.hpp asserts it): append only.
enum class failure_code : std::uint32_t {
    none = 0,
    invalid_argument,         ///< the caller asked for something that has no meaning
    not_a_heap,               ///< the path exists and is no Holdfast heap
    version_unsupported,      ///< a format version that this library does not read
    corrupt,                  ///< media content that breaks its checksum or an invariant
    missing,                  ///< a file of the heap is not there
    already_exists,           ///< create_only, and something is there
    not_found,                ///< open_only, and nothing is there; a name that is not there
    locked,                   ///< another process (or this one) has the heap open
    read_only,                ///< a change was asked of a heap opened read-only, or of a read-only file system
    permission,               ///< the file system refused access
    no_space,                 ///< the file system, a quota or the heap's own capacity is full
    address_taken,            ///< the address range that the heap needs is occupied
    io,                       ///< a system call failed in another way
    type_mismatch,            ///< an object has another type or size than the caller named
    name_exists,              ///< the name was constructed before
    promise_unavailable,      ///< the storage cannot keep the durability asked for
    wrong_process,            ///< a child of fork used its parent's heap
    concurrent_modification,  ///< memory changed while commit() ran
    poisoned,                 ///< an earlier sync failed: nothing more can be promised until the heap is reopened
    limit,                    ///< a limit of the system or of the format was reached
    out_of_memory,            ///< DRAM for the heap's own bookkeeping ran out
    bad_address,              ///< an address that is not the start of an allocated block
    unsupported,              ///< the file system or kernel lacks an operation that was asked for
};

/// The code's name as it stands above, for messages and JSON.
[[nodiscard]] std::string_view to_string(failure_code code) noexcept;

/// One failure with all that a person needs to act on it. Empty strings are left out of the message.
struct failure {
    failure_code code = failure_code::none;
    std::string path;      ///< file or directory
    std::string field;     ///< what in it, or which operation
    std::string found;     ///< the value found
    std::string expected;  ///< the value expected
    std::string hint;      ///< what to do, or more detail
    int os_error = 0;      ///< errno, 0 where no system call failed

    /// "corrupt: /data/graph.hf/superblock: checksum of copy 1: found 0x.., expected 0x..: hint"
    [[nodiscard]] std::string message() const;
};

/// A failure of a system call: maps errno to a code (ENOSPC and EDQUOT: no_space, EACCES and EPERM: permission, ...).
[[nodiscard]] failure os_failure(int os_error, std::string_view operation, std::string_view path);

}  // namespace holdfast::base
