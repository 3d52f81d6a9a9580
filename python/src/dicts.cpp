// contents: dicts. Lookup follows one bucket; every walk is bounded by the number of entries and the size of the heap,
// so that a damaged chain is error(corrupt) and no endless loop.
#include "contents.hpp"

namespace holdfast::python {

using values::dict;
using values::dict_bucket;
using values::dict_entry;
using values::dict_segment;

const dict_entry& contents::expect_entry(const dict_entry* at) const {
    space.expect_block(at, sizeof(dict_entry), "entry of a dict");
    if (!at->tag.is(kind::entry)) {
        space.refuse("entry of a dict", "a block of another kind", "an entry");
    }
    return space.look(*at);
}

void contents::expect_step(std::uint64_t steps, std::uint64_t size) const {
    constexpr std::uint64_t often = 1024;
    if (steps > size || (steps % often == often - 1 && steps > space.heap().get_size() / sizeof(dict_entry))) {
        space.refuse("entries of a dict", "more than " + std::to_string(steps - 1), "at most " + std::to_string(size));
    }
}

dict_bucket& contents::bucket(const dict& in, std::uint64_t index) const {
    const std::uint64_t segment = dict::segment_of(index);
    if (segment >= dict::most_segments) {
        space.refuse("buckets of a dict", std::to_string(in.buckets), "fewer");
    }
    dict_segment* const segments = in.segments.get();
    space.expect_block(segments, dict::most_segments * sizeof(dict_segment), "segments of a dict");
    dict_bucket* const buckets = space.look(segments[segment]).buckets.get();
    space.expect_block(buckets, dict::segment_length(segment) * sizeof(dict_bucket), "buckets of a dict");
    return buckets[index - dict::segment_begin(segment)];
}

bool contents::is_same(const value& stored, const document& key) const {
    if (stored.what != key.what) {
        return false;
    }
    switch (key.what) {
        case kind::text:
        case kind::bytes:
        case kind::big_integer: {
            const auto& found = *space.object_of<values::blob>(stored);
            if (found.size != key.bytes.size()) {
                return false;
            }
            space.expect_block(&found, sizeof found + found.size, "key of a dict");
            return found.view() == key.bytes;
        }
        case kind::tuple:
        case kind::extended: {
            const auto& found = *space.object_of<values::sequence>(stored);
            if (space.look(found).size != key.parts.size()) {
                return false;
            }
            for (std::size_t i = 0; i < key.parts.size(); ++i) {
                if (!is_same(at(found, i), key.parts[i])) {
                    return false;
                }
            }
            return true;
        }
        default: return stored.number == key.number;
    }
}

dict_entry* contents::find_entry(const dict& in, const document& key, std::uint64_t hash) const {
    const dict& header = space.look(in);
    const bool by_bucket = header.buckets != 0;
    const dict_entry* at =
        by_bucket ? space.look(bucket(header, dict::bucket_of(hash, header.buckets))).first.get() : header.first.get();
    for (std::uint64_t steps = 0; at != nullptr; ++steps) {
        expect_step(steps, header.size);
        const dict_entry& entry = expect_entry(at);
        if (entry.hash == hash && is_same(entry.key, key)) {
            return const_cast<dict_entry*>(at);
        }
        at = by_bucket ? entry.next.get() : entry.following.get();
    }
    return nullptr;
}

std::optional<value> contents::find(const dict& in, const document& key) const {
    const dict_entry* const found = find_entry(in, key, hash_of(key));
    return found == nullptr ? std::nullopt : std::optional<value>(space.look(*found).content);
}

const dict_entry* contents::step(const dict& in, const dict_entry* at, bool backwards) const {
    if (at == nullptr) {
        const dict& header = space.look(in);
        return backwards ? header.last.get() : header.first.get();
    }
    const dict_entry& entry = expect_entry(at);
    return backwards ? entry.previous.get() : entry.following.get();
}

void contents::put(dict& in, const document& key, const value& content, values::root& root) {
    const std::uint64_t hash = hash_of(key);
    if (dict_entry* const found = find_entry(in, key, hash); found != nullptr) {
        dict_entry& entry = space.change(*found);
        const value before = entry.content;
        entry.content = content;
        drop(before, root);
        return;
    }
    insert(in, key, hash, content);
}

void contents::insert(dict& in, const document& key, std::uint64_t hash, const value& content) {
    auto* const made = space.make<dict_entry>();
    made->hash = hash;
    made->key = build(key);
    made->content = content;
    dict& header = space.change(in);
    made->previous = header.last.get();
    if (header.last != nullptr) {
        static_cast<void>(expect_entry(header.last.get()));
        space.change(*header.last).following = made;
    } else {
        header.first = made;
    }
    header.last = made;
    ++header.size;
    ++header.generation;
    if (header.buckets != 0) {
        if (header.size > header.buckets) {
            add_bucket(in);
        }
        link(in, *made, header.buckets);
    } else if (header.size > dict::first_buckets) {
        index_all(in);
    }
}

/// Puts the entry at the head of its bucket.
void contents::link(dict& in, dict_entry& entry, std::uint64_t buckets) {
    dict_entry& changed = space.change(entry);
    dict_bucket& place = space.change(bucket(space.look(in), dict::bucket_of(changed.hash, buckets)));
    changed.next = place.first.get();
    place.first = &entry;
}

void contents::index_all(dict& in) {
    dict& header = space.change(in);
    auto* const segments = static_cast<dict_segment*>(
        space.make_block(dict::most_segments * sizeof(dict_segment), alignof(dict_segment), true));
    auto* const buckets = static_cast<dict_bucket*>(
        space.make_block(dict::first_buckets * sizeof(dict_bucket), alignof(dict_bucket), true));
    segments[0].buckets = buckets;
    header.segments = segments;
    header.buckets = dict::first_buckets;
    for_each_entry(
        in, [&](const dict_entry&, const dict_entry* at) { link(in, const_cast<dict_entry&>(*at), header.buckets); });
}

/// One more bucket, which takes its entries from the bucket that they were in.
void contents::add_bucket(dict& in) {
    dict& header = space.change(in);
    const std::uint64_t added = header.buckets;
    const std::uint64_t segment = dict::segment_of(added);
    if (segment >= dict::most_segments) {
        return;
    }
    if (added == dict::segment_begin(segment)) {
        auto* const buckets = static_cast<dict_bucket*>(
            space.make_block(dict::segment_length(segment) * sizeof(dict_bucket), alignof(dict_bucket), true));
        space.change(header.segments.get()[segment]).buckets = buckets;
    }
    const std::uint64_t split = added & (std::bit_ceil(added + 1) / 2 - 1);
    dict_bucket& from = space.change(bucket(header, split));
    dict_entry* at = from.first.get();
    from.first = nullptr;
    header.buckets = added + 1;
    for (std::uint64_t steps = 0; at != nullptr; ++steps) {
        expect_step(steps, header.size);
        dict_entry* const after = expect_entry(at).next.get();
        link(in, *at, header.buckets);
        at = after;
    }
}

void contents::unlink_from_bucket(dict& in, dict_entry& gone) {
    const dict& header = space.look(in);
    dict_entry* const after = space.look(gone).next.get();
    dict_bucket& place = space.change(bucket(header, dict::bucket_of(space.look(gone).hash, header.buckets)));
    if (place.first.get() == &gone) {
        place.first = after;
        return;
    }
    dict_entry* at = place.first.get();
    for (std::uint64_t steps = 0; at != nullptr; ++steps) {
        expect_step(steps, header.size);
        dict_entry* const next = expect_entry(at).next.get();
        if (next == &gone) {
            space.change(*at).next = after;
            return;
        }
        at = next;
    }
    space.refuse("chain of a dict", "an entry that is in no bucket", "an entry in its bucket");
}

void contents::unlink(dict& in, dict_entry& gone) {
    dict& header = space.change(in);
    if (header.buckets != 0) {
        unlink_from_bucket(in, gone);
    }
    const dict_entry entry = space.look(gone);
    if (entry.previous != nullptr) {
        static_cast<void>(expect_entry(entry.previous.get()));
        space.change(*entry.previous).following = entry.following.get();
    } else {
        header.first = entry.following.get();
    }
    if (entry.following != nullptr) {
        static_cast<void>(expect_entry(entry.following.get()));
        space.change(*entry.following).previous = entry.previous.get();
    } else {
        header.last = entry.previous.get();
    }
    --header.size;
    ++header.generation;
}

bool contents::erase(dict& in, const document& key, values::root& root) {
    dict_entry* const found = find_entry(in, key, hash_of(key));
    if (found == nullptr) {
        return false;
    }
    unlink(in, *found);
    const dict_entry entry = space.look(*found);
    drop(entry.key, root);
    drop(entry.content, root);
    space.free(found);
    return true;
}

void contents::clear(dict& in, values::root& root) {
    dict& header = space.change(in);
    for_each_entry(in, [&](const dict_entry& entry, const dict_entry* at) {
        drop(entry.key, root);
        drop(entry.content, root);
        space.free(at);
    });
    release_index(header);
    header.size = 0;
    header.buckets = 0;
    ++header.generation;
    header.segments = nullptr;
    header.first = nullptr;
    header.last = nullptr;
}

/// Frees segments and buckets of a dict.
void contents::release_index(const dict& of) {
    if (of.buckets == 0) {
        return;
    }
    for (std::uint64_t segment = 0; segment <= dict::segment_of(of.buckets - 1); ++segment) {
        space.free(&bucket(of, dict::segment_begin(segment)));
    }
    space.free(of.segments.get());
}

}  // namespace holdfast::python
