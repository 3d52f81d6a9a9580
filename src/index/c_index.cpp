#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/detail/c_interface.hpp>
#include <holdfast/hash_index.hpp>
#include <holdfast/index.h>
#include <holdfast/ordered_index.hpp>

namespace {

using holdfast::c_api::guarded;
using holdfast::c_api::heap_of;
using holdfast::c_api::heap_user;
using holdfast::c_api::required;

using number_index = holdfast::ordered_index<std::uint64_t, std::uint64_t>;
using text_index = holdfast::ordered_index<std::string_view, std::string_view>;

using number_hash_index = holdfast::hash_index<std::uint64_t, std::uint64_t>;
using text_hash_index = holdfast::hash_index<std::string_view, std::string_view>;

}  // namespace

namespace holdfast::c_api {

template <class Index>
struct open_index_of {
    open_index_of(hf_heap* heap, const char* name) : user(heap), index(user.heap(), name) {}
    heap_user user;
    Index index;
};

}  // namespace holdfast::c_api

struct hf_index : holdfast::c_api::open_index_of<number_index> {
    using open_index_of::open_index_of;
};
struct hf_text_index : holdfast::c_api::open_index_of<text_index> {
    using open_index_of::open_index_of;
};
struct hf_hash_index : holdfast::c_api::open_index_of<number_hash_index> {
    using open_index_of::open_index_of;
};
struct hf_text_hash_index : holdfast::c_api::open_index_of<text_hash_index> {
    using open_index_of::open_index_of;
};

namespace {

std::string_view text_of(hf_bytes bytes) {
    return bytes.size == 0 ? std::string_view()
                           : std::string_view(&required(static_cast<const char*>(bytes.data), "data"), bytes.size);
}
hf_bytes bytes_of(std::string_view text) { return {text.data(), text.size()}; }
std::uint64_t as_key(std::uint64_t word) { return word; }
std::string_view as_key(hf_bytes bytes) { return text_of(bytes); }

template <class Handle>
hf_code open_index(hf_heap* heap, const char* name, Handle** index) noexcept {
    return guarded([&] {
        Handle*& out = required(index, "index");
        out = std::make_unique<Handle>(heap, &required(name, "name")).release();
    });
}
template <class Index>
hf_code destroy_index(hf_heap* heap, const char* name) noexcept {
    bool done = false;
    const hf_code code = guarded([&] { done = Index::destroy(heap_of(heap), &required(name, "name")); });
    return code != HF_OK || done ? code : holdfast::c_api::remember(HF_NOT_FOUND, "not_found: no index of that name");
}
/// `otherwise`: the code where `change` has changed nothing.
template <class Change>
hf_code changed_or(hf_code otherwise, Change&& change) noexcept {
    bool done = false;
    const hf_code code = guarded([&] { done = change(); });
    if (code != HF_OK || done) {
        return code;
    }
    return holdfast::c_api::remember(
        otherwise, otherwise == HF_NOT_FOUND ? "not_found: the key is not there" : "already_exists: the key is there");
}
template <class Handle, class Key, class Value>
hf_code insert(Handle* index, const Key& key, const Value& value) noexcept {
    return changed_or(HF_ALREADY_EXISTS,
                      [&] { return required(index, "index").index.insert(as_key(key), as_key(value)); });
}
template <class Handle, class Key, class Value>
hf_code update(Handle* index, const Key& key, const Value& value) noexcept {
    return changed_or(HF_NOT_FOUND, [&] { return required(index, "index").index.update(as_key(key), as_key(value)); });
}
template <class Handle, class Key, class Value>
hf_code put(Handle* index, const Key& key, const Value& value) noexcept {
    return guarded([&] { required(index, "index").index.upsert(as_key(key), as_key(value)); });
}
template <class Handle, class Key>
hf_code remove(Handle* index, const Key& key) noexcept {
    return changed_or(HF_NOT_FOUND, [&] { return required(index, "index").index.remove(as_key(key)); });
}
template <class Handle>
hf_code find_number(const Handle* index, std::uint64_t key, std::uint64_t* value) noexcept {
    return changed_or(HF_NOT_FOUND, [&] {
        const auto found = required(index, "index").index.find(key);
        if (found && value != nullptr) {
            *value = *found;
        }
        return found.has_value();
    });
}
template <class Handle>
hf_code find_text(const Handle* index, hf_bytes key, void* buffer, std::size_t room, std::size_t* size) noexcept {
    return changed_or(HF_NOT_FOUND, [&] {
        const auto found = required(index, "index").index.find(text_of(key));
        if (found && room != 0) {
            std::memcpy(&required(static_cast<char*>(buffer), "buffer"), found->data(), std::min(room, found->size()));
        }
        if (found && size != nullptr) {
            *size = found->size();
        }
        return found.has_value();
    });
}
auto calls(hf_index_visitor visitor, void* context) {
    static_cast<void>(required(visitor, "visitor"));
    return [=](std::uint64_t key, std::uint64_t value) { return visitor(key, value, context) == 0; };
}
auto calls(hf_text_index_visitor visitor, void* context) {
    static_cast<void>(required(visitor, "visitor"));
    return [=](std::string_view key, std::string_view value) {
        return visitor(bytes_of(key), bytes_of(value), context) == 0;
    };
}
template <class Handle>
hf_code clear(Handle* index) noexcept {
    return guarded([&] { required(index, "index").index.clear(); });
}
template <class Handle>
hf_code count(const Handle* index, std::uint64_t* size) noexcept {
    return guarded([&] { required(size, "size") = required(index, "index").index.size(); });
}
template <class Handle>
hf_code check(Handle* index) noexcept {
    std::vector<std::string> problems;
    const hf_code code = guarded([&] { problems = required(index, "index").index.check(); });
    return problems.empty() ? code : holdfast::c_api::remember(HF_CORRUPT, problems.front());
}

}  // namespace

hf_code hf_index_open(hf_heap* heap, const char* name, hf_index** index) { return open_index(heap, name, index); }
void hf_index_close(hf_index* index) { static_cast<void>(std::unique_ptr<hf_index>(index)); }
hf_code hf_index_destroy(hf_heap* heap, const char* name) { return destroy_index<number_index>(heap, name); }
hf_code hf_index_insert(hf_index* index, uint64_t key, uint64_t value) { return insert(index, key, value); }
hf_code hf_index_update(hf_index* index, uint64_t key, uint64_t value) { return update(index, key, value); }
hf_code hf_index_put(hf_index* index, uint64_t key, uint64_t value) { return put(index, key, value); }
hf_code hf_index_remove(hf_index* index, uint64_t key) { return remove(index, key); }
hf_code hf_index_find(const hf_index* index, uint64_t key, uint64_t* value) { return find_number(index, key, value); }
hf_code hf_index_scan(const hf_index* index, uint64_t from, hf_index_visitor visitor, void* context) {
    return guarded([&] { required(index, "index").index.scan(as_key(from), calls(visitor, context)); });
}
hf_code hf_index_scan_backward(const hf_index* index, uint64_t from, hf_index_visitor visitor, void* context) {
    return guarded([&] { required(index, "index").index.scan_backward(as_key(from), calls(visitor, context)); });
}
hf_code hf_index_size(const hf_index* index, uint64_t* size) { return count(index, size); }
hf_code hf_index_clear(hf_index* index) { return clear(index); }
hf_code hf_index_check(hf_index* index) { return check(index); }

hf_code hf_text_index_open(hf_heap* heap, const char* name, hf_text_index** index) {
    return open_index(heap, name, index);
}
void hf_text_index_close(hf_text_index* index) { static_cast<void>(std::unique_ptr<hf_text_index>(index)); }
hf_code hf_text_index_destroy(hf_heap* heap, const char* name) { return destroy_index<text_index>(heap, name); }
hf_code hf_text_index_insert(hf_text_index* index, hf_bytes key, hf_bytes value) { return insert(index, key, value); }
hf_code hf_text_index_update(hf_text_index* index, hf_bytes key, hf_bytes value) { return update(index, key, value); }
hf_code hf_text_index_put(hf_text_index* index, hf_bytes key, hf_bytes value) { return put(index, key, value); }
hf_code hf_text_index_remove(hf_text_index* index, hf_bytes key) { return remove(index, key); }
hf_code hf_text_index_find(const hf_text_index* index, hf_bytes key, void* buffer, size_t room, size_t* size) {
    return find_text(index, key, buffer, room, size);
}
hf_code hf_text_index_scan(const hf_text_index* index, hf_bytes from, hf_text_index_visitor visitor, void* context) {
    return guarded([&] { required(index, "index").index.scan(as_key(from), calls(visitor, context)); });
}
hf_code hf_text_index_scan_backward(const hf_text_index* index, hf_bytes from, hf_text_index_visitor visitor,
                                    void* context) {
    return guarded([&] { required(index, "index").index.scan_backward(as_key(from), calls(visitor, context)); });
}
hf_code hf_text_index_size(const hf_text_index* index, uint64_t* size) { return count(index, size); }
hf_code hf_text_index_clear(hf_text_index* index) { return clear(index); }
hf_code hf_text_index_check(hf_text_index* index) { return check(index); }

hf_code hf_hash_index_open(hf_heap* heap, const char* name, hf_hash_index** index) {
    return open_index(heap, name, index);
}
void hf_hash_index_close(hf_hash_index* index) { static_cast<void>(std::unique_ptr<hf_hash_index>(index)); }
hf_code hf_hash_index_destroy(hf_heap* heap, const char* name) { return destroy_index<number_hash_index>(heap, name); }
hf_code hf_hash_index_insert(hf_hash_index* index, uint64_t key, uint64_t value) { return insert(index, key, value); }
hf_code hf_hash_index_update(hf_hash_index* index, uint64_t key, uint64_t value) { return update(index, key, value); }
hf_code hf_hash_index_put(hf_hash_index* index, uint64_t key, uint64_t value) { return put(index, key, value); }
hf_code hf_hash_index_remove(hf_hash_index* index, uint64_t key) { return remove(index, key); }
hf_code hf_hash_index_find(const hf_hash_index* index, uint64_t key, uint64_t* value) {
    return find_number(index, key, value);
}
hf_code hf_hash_index_each(const hf_hash_index* index, hf_index_visitor visitor, void* context) {
    return guarded([&] { required(index, "index").index.for_each(calls(visitor, context)); });
}
hf_code hf_hash_index_size(const hf_hash_index* index, uint64_t* size) { return count(index, size); }
hf_code hf_hash_index_clear(hf_hash_index* index) { return clear(index); }
hf_code hf_hash_index_check(hf_hash_index* index) { return check(index); }

hf_code hf_text_hash_index_open(hf_heap* heap, const char* name, hf_text_hash_index** index) {
    return open_index(heap, name, index);
}
void hf_text_hash_index_close(hf_text_hash_index* index) {
    static_cast<void>(std::unique_ptr<hf_text_hash_index>(index));
}
hf_code hf_text_hash_index_destroy(hf_heap* heap, const char* name) {
    return destroy_index<text_hash_index>(heap, name);
}
hf_code hf_text_hash_index_insert(hf_text_hash_index* index, hf_bytes key, hf_bytes value) {
    return insert(index, key, value);
}
hf_code hf_text_hash_index_update(hf_text_hash_index* index, hf_bytes key, hf_bytes value) {
    return update(index, key, value);
}
hf_code hf_text_hash_index_put(hf_text_hash_index* index, hf_bytes key, hf_bytes value) {
    return put(index, key, value);
}
hf_code hf_text_hash_index_remove(hf_text_hash_index* index, hf_bytes key) { return remove(index, key); }
hf_code hf_text_hash_index_find(const hf_text_hash_index* index, hf_bytes key, void* buffer, size_t room,
                                size_t* size) {
    return find_text(index, key, buffer, room, size);
}
hf_code hf_text_hash_index_each(const hf_text_hash_index* index, hf_text_index_visitor visitor, void* context) {
    return guarded([&] { required(index, "index").index.for_each(calls(visitor, context)); });
}
hf_code hf_text_hash_index_size(const hf_text_hash_index* index, uint64_t* size) { return count(index, size); }
hf_code hf_text_hash_index_clear(hf_text_hash_index* index) { return clear(index); }
hf_code hf_text_hash_index_check(hf_text_hash_index* index) { return check(index); }
