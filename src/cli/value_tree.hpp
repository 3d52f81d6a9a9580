// What Python programs keep in a heap (docs/python.md), read without trust: every pointer is checked before it is
// followed, and every walk ends. A damaged heap is holdfast::error(corrupt).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/manager.hpp>
#include <holdfast/values.hpp>

namespace holdfast_cli {

namespace values = holdfast::values;

class value_tree {
public:
    static constexpr unsigned most_levels = 500;  ///< of a value that is read as a whole

    explicit value_tree(const holdfast::manager& heap);

    /// Whether a Python program has written to the heap.
    [[nodiscard]] bool is_there() const noexcept { return root_ != nullptr; }
    /// The dict that Python sees as the heap.
    [[nodiscard]] const values::value& entries() const;

    [[nodiscard]] const values::array& array_of(const values::value& of) const;
    [[nodiscard]] std::vector<std::uint64_t> shape_of(const values::array& of) const;
    /// Of text, bytes, big_integer and pickled.
    [[nodiscard]] std::string_view bytes_of(const values::value& of) const;
    [[nodiscard]] std::uint64_t length_of(const values::value& of) const;
    /// Of a dict; `each` returns whether it goes on.
    void for_each_entry(const values::value& of,
                        const std::function<bool(const values::value& key, const values::value& content)>& each) const;
    /// Of a list, a tuple or an extended value.
    [[nodiscard]] std::vector<const values::value*> elements_of(const values::value& of) const;
    /// The value that the keys lead to, from the heap on; of a list, indexes. Null where nothing is there.
    [[nodiscard]] const values::value* find(const std::vector<std::string>& keys) const;

    /// As a person writes it: words, 3, (1, 'a').
    [[nodiscard]] std::string key_text(const values::value& key) const;
    /// "int", "str", "dict", "<f8", "datetime.date".
    [[nodiscard]] std::string type_text(const values::value& of) const;
    /// Bytes of text, elements and all that is below.
    [[nodiscard]] std::uint64_t size_of(const values::value& of) const;

private:
    template <class T>
    [[nodiscard]] const T& object(const values::value& of) const;
    void expect_block(const void* address, std::uint64_t bytes, const char* field) const;
    [[noreturn]] void refuse(const std::string& field, const std::string& found, const std::string& expected) const;
    void count(std::uint64_t values) const;
    [[nodiscard]] std::uint64_t size_below(const values::value& of, unsigned level) const;
    [[nodiscard]] const values::value* child(const values::value& of, const std::string& key) const;

    const holdfast::manager* heap_;
    const values::root* root_ = nullptr;
    mutable std::uint64_t left_;  ///< values that may still be read; more than the heap has room for are a circle
};

}  // namespace holdfast_cli
