#include "store/long_keys.hpp"

#include <cstring>

namespace holdfast::store_engine {
namespace {

std::string_view text_of_run(const page_header& run, const long_key& key) noexcept {
    return {reinterpret_cast<const char*>(&run) + run_header_size, key.where.size};
}

// The order of an entry's key and another.
status compare_key(const transaction_pages& pages, const block_header& block, unsigned index, const order& by,
                   std::string_view other, int& difference) {
    const stored_key stored = stored_key_at(block, index);
    if (!stored.is_long) {
        difference = compare(by, stored.text, other);
        return status::ok;
    }
    const long_key key = long_key_from(stored.text);
    if (by.kind == order_kind::bytes) {
        const std::string_view head(key.head.data(), key.head.size());
        difference = compare_bytes(head, other.substr(0, head.size()));
        if (difference != 0) {
            return status::ok;
        }
    }
    const page_header* run = nullptr;
    HF_STORE_TRY(run_of(pages, key, run));
    difference = compare(by, text_of_run(*run, key), other);
    return status::ok;
}

}  // namespace

status run_of(const transaction_pages& pages, const long_key& key, const page_header*& run) {
    HF_STORE_TRY(pages.get(key.where.page, run));
    const bool is_key = run->block.kind == page_kind::run && key.where.size > key.head.size() &&
                        key.where.size <= max_long_key && run->run_pages == run_pages_for(key.where.size) &&
                        std::memcmp(text_of_run(*run, key).data(), key.head.data(), key.head.size()) == 0;
    return is_key ? status::ok : status::corrupted;
}

status read_long_key(const transaction_pages& pages, const block_header& block, unsigned index, std::string_view& key) {
    const stored_key stored = stored_key_at(block, index);
    key = stored.text;
    if (stored.is_long) {
        const long_key where = long_key_from(stored.text);
        const page_header* run = nullptr;
        HF_STORE_TRY(run_of(pages, where, run));
        key = text_of_run(*run, where);
    }
    return status::ok;
}

status find_in_leaf_of_long_keys(const transaction_pages& pages, const block_header& block, const order& by,
                                 std::string_view key, unsigned& index, bool& exact) {
    unsigned low = 0;
    unsigned high = block.count;
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        int difference = 0;
        HF_STORE_TRY(compare_key(pages, block, middle, by, key, difference));
        if (difference == 0) {
            index = middle;
            exact = true;
            return status::ok;
        }
        if (difference < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    index = low;
    exact = false;
    return status::ok;
}

status find_in_branch_of_long_keys(const transaction_pages& pages, const block_header& block, const order& by,
                                   std::string_view key, unsigned& index) {
    unsigned low = 1;  // entry 0 is below every key
    unsigned high = block.count;
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        int difference = 0;
        HF_STORE_TRY(compare_key(pages, block, middle, by, key, difference));
        if (difference <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    index = low - 1;
    return status::ok;
}

status create_long_key(transaction_pages& pages, std::string_view key, long_key& node, std::uint64_t& long_pages) {
    std::byte* memory = nullptr;
    node.where = {.page = 0, .size = key.size()};
    HF_STORE_TRY(pages.create_run(key.size(), node.where.page, memory));
    std::memcpy(memory, key.data(), key.size());
    std::memcpy(node.head.data(), key.data(), node.head.size());
    long_pages += run_pages_for(key.size());
    pages.state()->changes.has_long_keys = true;
    return status::ok;
}

status release_key(transaction_pages& pages, const stored_key& key, std::uint64_t& long_pages) {
    if (!key.is_long) {
        return status::ok;
    }
    const long_key where = long_key_from(key.text);
    const page_header* run = nullptr;
    HF_STORE_TRY(run_of(pages, where, run));
    long_pages -= run->run_pages;
    pages.release(where.where.page, *run);
    return status::ok;
}

}  // namespace holdfast::store_engine
