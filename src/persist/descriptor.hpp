#pragma once

#include <unistd.h>

#include <utility>

namespace holdfast::persist {

/// Errors of close() are ignored: what must be durable was synced before.
class descriptor {
public:
    descriptor() = default;
    explicit descriptor(int number) noexcept : number_(number) {}
    descriptor(descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    descriptor& operator=(descriptor&& other) noexcept {
        if (this != &other) {
            reset();
            number_ = std::exchange(other.number_, -1);
        }
        return *this;
    }
    descriptor(const descriptor&) = delete;
    descriptor& operator=(const descriptor&) = delete;
    ~descriptor() { reset(); }

    [[nodiscard]] int get() const noexcept { return number_; }
    [[nodiscard]] bool valid() const noexcept { return number_ >= 0; }
    [[nodiscard]] int release() noexcept { return std::exchange(number_, -1); }
    void reset() noexcept {
        if (number_ >= 0) {
            ::close(std::exchange(number_, -1));
        }
    }

private:
    int number_ = -1;
};

}  // namespace holdfast::persist
