// Helpers of storages that wrap another one.
#pragma once

#include "persist/storage.hpp"

namespace holdfast::simulator {

/// The file inside a Decorator, or the file itself: a storage wants back the files that it made.
template <class Decorator>
[[nodiscard]] persist::file& undecorated(persist::file& outer) noexcept {
    auto* decorator = dynamic_cast<Decorator*>(&outer);
    return decorator != nullptr ? decorator->inner() : outer;
}

}  // namespace holdfast::simulator
