#include "map_data.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace holdfast_cli {

namespace {

enum operation : std::uint64_t {
    op_free = 0,
    op_block = 1,
    op_slab = 2,
    op_roots = 3,
    op_reserved = 4,
    op_repeat = 7,
    // of stores
    op_old = 1,
    op_meta = 3,
    op_branch = 4,
    op_long = 5,
    op_log = 6
};

void put(std::string& to, std::uint64_t value) {
    for (; value >= 128; value /= 128) {
        to += static_cast<char>(value % 128 + 128);
    }
    to += static_cast<char>(value);
}

operation operation_of(holdfast::extent_kind kind) noexcept {
    switch (kind) {
        case holdfast::extent_kind::free: return op_free;
        case holdfast::extent_kind::block: return op_block;
        case holdfast::extent_kind::slab: return op_slab;
        case holdfast::extent_kind::roots: return op_roots;
        case holdfast::extent_kind::reserved: break;
    }
    return op_reserved;
}

operation operation_of(unsigned kind_of_store) noexcept {
    switch (kind_of_store) {
        case HF_LMDB_FREE: return op_free;
        case HF_LMDB_OLD: return op_old;
        case HF_LMDB_LEAF: return op_slab;
        case HF_LMDB_META: return op_meta;
        case HF_LMDB_BRANCH: return op_branch;
        case HF_LMDB_LONG: return op_long;
        default: return op_log;
    }
}

}  // namespace

std::uint64_t map_encoder::class_index(const slab_class& wanted) {
    const auto found = std::find(classes_.begin(), classes_.end(), wanted);
    if (found != classes_.end()) {
        return static_cast<std::uint64_t>(found - classes_.begin());
    }
    classes_.push_back(wanted);
    return classes_.size() - 1;
}

void map_encoder::add(const holdfast::extent_info& extent) {
    const bool slab = extent.kind == holdfast::extent_kind::slab;
    add({.operation = operation_of(extent.kind),
         .pages_or_class = slab ? class_index({extent.block_size, extent.blocks}) : extent.bytes / map_page_size,
         .live = slab ? std::optional(extent.live_blocks) : std::nullopt,
         .bytes = extent.bytes,
         .backed_bytes = extent.backed_bytes});
}

void map_encoder::add(const hf_lmdb_extent& extent) {
    const bool leaf = extent.kind == HF_LMDB_LEAF;
    add({.operation = operation_of(extent.kind),
         .pages_or_class = leaf ? class_index({1, map_page_size}) : extent.pages,
         .live = leaf ? std::optional<std::uint32_t>(extent.used_bytes) : std::nullopt,
         .bytes = extent.pages * map_page_size,
         .backed_bytes = extent.backed_pages * map_page_size});
}

void map_encoder::add(const record& one) {
    const std::uint64_t backing = one.backed_bytes == 0 ? 0 : one.backed_bytes == one.bytes ? 1 : 2;
    std::string record;
    put(record, one.operation + 8 * backing + 32 * one.pages_or_class);
    if (one.live) {
        put(record, *one.live);
    }
    if (backing == 2) {
        put(record, one.backed_bytes);
    }
    if (record == last_) {
        ++repeats_;
        return;
    }
    finish();
    bytes_ += record;
    last_ = std::move(record);
}

void map_encoder::finish() {
    if (repeats_ != 0) {
        put(bytes_, op_repeat + 8 * repeats_);
        repeats_ = 0;
    }
}

std::string base64(const std::string& bytes) {
    static constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t at = 0; at < bytes.size(); at += 3) {
        const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
        std::uint32_t group = 0;
        for (std::size_t i = 0; i < 3; ++i) {
            group = group << 8U | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
        }
        for (std::size_t i = 0; i < 4; ++i) {
            text += i <= count ? digits[group >> (18 - 6 * i) & 63U] : '=';
        }
    }
    return text;
}

}  // namespace holdfast_cli
