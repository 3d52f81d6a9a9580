// A wait for other processes that a signal ends, where the thread wants that.
#pragma once

#include <utility>

namespace holdfast::base {

/// Of a thread: whether it gives up a wait in which a signal has come. Null: it goes on waiting.
class interruption {
public:
    using question = bool (*)() noexcept;

    /// What was asked before.
    static question ask(question next) noexcept { return std::exchange(asked_, next); }
    /// Behind EINTR.
    [[nodiscard]] static bool is_wanted() noexcept { return asked_ != nullptr && asked_(); }

private:
    inline static thread_local question asked_ = nullptr;
};

}  // namespace holdfast::base
