// What storages that wrap another storage share.
#pragma once

#include "persist/storage.hpp"

namespace holdfast::simulator {

/// The file inside a Decorator, or the file itself: for calls that hand a file back to the storage that made it.
template <class Decorator>
[[nodiscard]] persist::file& undecorated(persist::file& outer) noexcept {
    auto* decorator = dynamic_cast<Decorator*>(&outer);
    return decorator != nullptr ? decorator->inner() : outer;
}

}  // namespace holdfast::simulator
