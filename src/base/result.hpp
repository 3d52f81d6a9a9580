// C++20 has no std::expected.
#pragma once

#include <utility>
#include <variant>

#include "base/assert.hpp"
#include "base/failure.hpp"

namespace holdfast::base {

template <class T>
class [[nodiscard]] result {
public:
    result(T value) : content_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
    result(failure what) : content_(std::in_place_index<1>, std::move(what)) {}  // NOLINT(google-explicit-constructor)

    [[nodiscard]] bool ok() const noexcept { return content_.index() == 0; }
    explicit operator bool() const noexcept { return ok(); }

    [[nodiscard]] T& value() & noexcept {
        HF_ASSERT(ok());
        return *std::get_if<0>(&content_);
    }
    [[nodiscard]] const T& value() const& noexcept {
        HF_ASSERT(ok());
        return *std::get_if<0>(&content_);
    }
    [[nodiscard]] T&& value() && noexcept {
        HF_ASSERT(ok());
        return std::move(*std::get_if<0>(&content_));
    }
    [[nodiscard]] T& operator*() & noexcept { return value(); }
    [[nodiscard]] const T& operator*() const& noexcept { return value(); }
    [[nodiscard]] T* operator->() noexcept { return &value(); }
    [[nodiscard]] const T* operator->() const noexcept { return &value(); }

    [[nodiscard]] failure& error() & noexcept {
        HF_ASSERT(!ok());
        return *std::get_if<1>(&content_);
    }
    [[nodiscard]] const failure& error() const& noexcept {
        HF_ASSERT(!ok());
        return *std::get_if<1>(&content_);
    }
    [[nodiscard]] failure&& error() && noexcept {
        HF_ASSERT(!ok());
        return std::move(*std::get_if<1>(&content_));
    }

private:
    std::variant<T, failure> content_;
};

template <>
class [[nodiscard]] result<void> {
public:
    result() = default;
    result(failure what) : content_(std::move(what)) {  // NOLINT(google-explicit-constructor)
        HF_ASSERT(content_.code != failure_code::none);
    }

    [[nodiscard]] bool ok() const noexcept { return content_.code == failure_code::none; }
    explicit operator bool() const noexcept { return ok(); }
    [[nodiscard]] failure& error() & noexcept { return content_; }
    [[nodiscard]] const failure& error() const& noexcept { return content_; }
    [[nodiscard]] failure&& error() && noexcept { return std::move(content_); }

private:
    failure content_;
};

}  // namespace holdfast::base

#define HF_CONCAT_2(a, b) a##b
#define HF_CONCAT(a, b) HF_CONCAT_2(a, b)
#define HF_TRY(expression)                                       \
    do {                                                         \
        if (auto hf_try_result = (expression); !hf_try_result) { \
            return std::move(hf_try_result).error();             \
        }                                                        \
    } while (false)
#define HF_TRY_ASSIGN_2(temporary, target, expression) \
    auto temporary = (expression);                     \
    if (!temporary) {                                  \
        return std::move(temporary).error();           \
    }                                                  \
    target = std::move(temporary).value()
#define HF_TRY_ASSIGN(target, expression) HF_TRY_ASSIGN_2(HF_CONCAT(hf_try_, __LINE__), target, expression)
