// A hash table from addresses to what is known of them, for transactions with many: one array, without a node for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace holdfast::python {

/// Functions that add throw std::bad_alloc, and change nothing then.
template <class Value>
class address_map {
public:
    [[nodiscard]] std::size_t size() const noexcept { return used_; }

    [[nodiscard]] const Value* find(const void* key) const noexcept {
        if (used_ == 0) {
            return nullptr;
        }
        const slot& found = slots_[place_of(key)];
        return found.key == nullptr ? nullptr : &found.value;
    }
    [[nodiscard]] bool contains(const void* key) const noexcept { return find(key) != nullptr; }

    /// The value of the key, which is not null, and whether it was added. Valid until the next call that changes
    /// something.
    std::pair<Value*, bool> add(const void* key, Value value) {
        if (2 * (used_ + 1) > slots_.size()) {
            grow();
        }
        slot& found = slots_[place_of(key)];
        if (found.key != nullptr) {
            return {&found.value, false};
        }
        found = {key, value};
        ++used_;
        return {&found.value, true};
    }

    void erase(const void* key) noexcept {
        if (used_ == 0) {
            return;
        }
        std::size_t gap = place_of(key);
        if (slots_[gap].key == nullptr) {
            return;
        }
        // What lies behind and would not be found beyond the gap takes its place.
        for (std::size_t at = next(gap); slots_[at].key != nullptr; at = next(at)) {
            const std::size_t home = first_of(slots_[at].key);
            const bool is_behind_gap = gap < at ? gap < home && home <= at : gap < home || home <= at;
            if (!is_behind_gap) {
                slots_[gap] = slots_[at];
                gap = at;
            }
        }
        slots_[gap] = {};
        --used_;
    }

    /// Takes time for what was in it, not for the most that ever was.
    void clear() noexcept {
        if (slots_.size() > few && used_ < slots_.size() / 16) {
            std::vector<slot>().swap(slots_);
        } else if (used_ != 0) {
            slots_.assign(slots_.size(), slot{});
        }
        used_ = 0;
    }

    template <class Function>
    void for_each(Function&& each) const {
        for (const slot& one : slots_) {
            if (one.key != nullptr) {
                each(one.key, one.value);
            }
        }
    }

private:
    struct slot {
        const void* key = nullptr;
        Value value{};
    };
    static constexpr std::size_t few = 32;

    [[nodiscard]] std::size_t next(std::size_t at) const noexcept { return (at + 1) & (slots_.size() - 1); }
    [[nodiscard]] std::size_t first_of(const void* key) const noexcept {
        const std::uint64_t mixed = reinterpret_cast<std::uintptr_t>(key) * 0x9E3779B97F4A7C15U;
        return static_cast<std::size_t>(mixed >> 32U) & (slots_.size() - 1);
    }
    /// Of the key, or where it would be.
    [[nodiscard]] std::size_t place_of(const void* key) const noexcept {
        std::size_t at = first_of(key);
        while (slots_[at].key != nullptr && slots_[at].key != key) {
            at = next(at);
        }
        return at;
    }
    void grow() {
        address_map larger;
        larger.slots_.resize(slots_.empty() ? few : 2 * slots_.size());
        for (const slot& one : slots_) {
            if (one.key != nullptr) {
                larger.slots_[larger.place_of(one.key)] = one;
            }
        }
        slots_.swap(larger.slots_);
    }

    std::vector<slot> slots_;  ///< a power of two, half of it free; or none
    std::size_t used_ = 0;
};

}  // namespace holdfast::python
