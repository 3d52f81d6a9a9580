// What cannot be ported does not compile, and the message says why. docs/porting.md says what to do instead.
#pragma once

#include <holdfast/compat/interprocess/managed_mapped_file.hpp>

namespace holdfast::compat::interprocess {

namespace detail {

template <class...>
inline constexpr bool never = false;
template <class... Used>
struct refuse_shared_memory {
    static_assert(
        never<Used...>,
        "holdfast: a heap has one writing process, so shared memory cannot be ported: use managed_mapped_file "
        "for data of one process (on /dev/shm, say), and keep Boost.Interprocess for several");
};
template <class... Used>
struct refuse_named {
    static_assert(never<Used...>,
                  "holdfast: named locks and queues are for several processes, and a heap has one that writes: use "
                  "interprocess_mutex and its kin, or keep boost::interprocess for what is not in the heap");
};

/// Derived from what the program expects, so that the sentence is the only message.
template <class Kind>
class refused_segment : public managed_mapped_file {
public:
    template <class... Args>
    explicit refused_segment(Args&&... /*args*/) {
        static_cast<void>(refuse_shared_memory<Args...>{});
    }
};
template <class Kind>
class refused_name {
public:
    template <class... Args>
    explicit refused_name(Args&&... /*args*/) {
        static_cast<void>(refuse_named<Args...>{});
    }
    template <class Name>
    static bool remove(const Name* /*name*/) {
        static_cast<void>(refuse_named<Name>{});
        return false;
    }
};
struct shared_kind;
struct windows_kind;
struct xsi_kind;
struct mutex_kind;
struct recursive_kind;
struct sharable_kind;
struct upgradable_kind;
struct condition_kind;
struct semaphore_kind;
struct queue_kind;

}  // namespace detail

using managed_shared_memory = detail::refused_segment<detail::shared_kind>;
using managed_windows_shared_memory = detail::refused_segment<detail::windows_kind>;
using managed_xsi_shared_memory = detail::refused_segment<detail::xsi_kind>;
using named_mutex = detail::refused_name<detail::mutex_kind>;
using named_recursive_mutex = detail::refused_name<detail::recursive_kind>;
using named_sharable_mutex = detail::refused_name<detail::sharable_kind>;
using named_upgradable_mutex = detail::refused_name<detail::upgradable_kind>;
using named_condition = detail::refused_name<detail::condition_kind>;
using named_semaphore = detail::refused_name<detail::semaphore_kind>;
using message_queue = detail::refused_name<detail::queue_kind>;

struct shared_memory_object {
    template <class Name>
    static bool remove(const Name* /*name*/) {
        static_cast<void>(detail::refuse_shared_memory<Name>{});
        return false;
    }
};

}  // namespace holdfast::compat::interprocess
