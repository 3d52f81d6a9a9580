// A library that is loaded when it is measured: other backends' processes do not have it, its malloc replaces no other,
// and the program runs where it is missing.
#pragma once

#include <string>

namespace bench {

class shared_library {
public:
    /// `package`: where Debian has it. Throws backend_unavailable.
    shared_library(const char* file, const char* package);

    /// From the library itself before those it stands on. Throws backend_unavailable.
    template <class Function>
    [[nodiscard]] Function* find(const char* name) const {
        return reinterpret_cast<Function*>(find_symbol(name));
    }

private:
    [[nodiscard]] void* find_symbol(const char* name) const;

    std::string file_;
    void* handle_;  // never closed: its threads' caches end after main
};

}  // namespace bench
