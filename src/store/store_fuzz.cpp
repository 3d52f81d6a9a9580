// Stores that an adversary wrote, checksums repaired: metas, pages, the list of free pages, the log. A store opens or
// is refused. If check finds it sound, all that follows succeeds and leaves it sound. Otherwise anything may be an
// error, but nothing crashes, hangs or grows without bound.
//
// An input is three bytes and changes of a sound store, which was closed or crashed: a page number, an offset, and two
// bytes each. Bits of the first byte, the control: 0 the store that crashed; 1 to 4 which checksums are repaired; 5
// without a lock file; 6 opened read-only; 7 work with a store that is not sound. Of the second, the place: 0 in a
// heap; 1 and 2 which store of a heap; 3 the heap keeps words at once; 4 another store's identity; 5 and 6 how the
// heap's word is chosen; 7 MDB_WRITEMAP. The third byte says what happens to a store in a heap.
#include <memory>

#include "store/store_fuzz_in_heap.hpp"
#include "store/store_fuzz_support.hpp"

namespace {

// NOLINTNEXTLINE(google-build-using-namespace): a program of one file
using namespace holdfast::store_engine::fuzz;
using holdfast::store_engine::bytes_checksum;
using holdfast::store_engine::meta_pages;
using holdfast::store_engine::page_size;

constexpr unsigned control_crashed = 1;
constexpr unsigned control_no_lock = 32;
constexpr unsigned control_read_only = 64;
constexpr unsigned control_go_on = 128;

constexpr unsigned place_in_heap = 1;
constexpr unsigned place_at_once = 8;
constexpr unsigned place_of_other = 16;
constexpr unsigned place_write_map = 128;

constexpr std::size_t head_bytes = 3;
constexpr std::size_t change_bytes = 6;

MDB_env* open_store(const std::string& path, unsigned flags, int& outcome) {
    MDB_env* env = nullptr;
    require(mdb_env_create(&env) == 0, "no memory");
    require(mdb_env_set_maxdbs(env, databases + 2) == 0, "no databases");
    require(hf_lmdb_set_maxkeysize(env, HF_LMDB_MOST_KEYSIZE) == 0, "no long keys");
    outcome = mdb_env_open(env, path.c_str(), flags | MDB_NOSUBDIR | MDB_NOSYNC, 0600);
    return env;
}

/// With each kind of page; `crashed`: not closed, and with commits in the log.
bytes sound_store(const scratch& place, bool crashed) {
    const std::string path = place.file(crashed ? "crashed" : "closed");
    in_process_that_dies([&] {
        int outcome = 0;
        MDB_env* const env = open_store(path, 0, outcome);
        for (unsigned i = 0; i < 5 && outcome == 0; ++i) {
            outcome = change_all(env, i * 30, 30, false);
        }
        outcome = outcome != 0 ? outcome : change_all(env, 20, 25, true);
        if (!crashed) {
            mdb_env_close(env);
        } else if (outcome == 0) {
            mdb_env_close(env);  // a checkpoint: records and pages are both needed
            MDB_env* const again = open_store(path, 0, outcome);
            for (unsigned i = 0; i < 4 && outcome == 0; ++i) {
                outcome = change_all(again, i * 40, 3, i % 2 != 0);
            }
        }
        return outcome;
    });
    return read_file(path);
}

void drop_all(MDB_env* env, bool sound) {
    MDB_txn* in = nullptr;
    if (mdb_txn_begin(env, nullptr, 0, &in) != 0) {
        require(!sound, "a sound store takes no transaction\n");
        return;
    }
    for (unsigned i = 0; i < databases; ++i) {
        MDB_dbi database = 0;
        if (mdb_dbi_open(in, names[i], 0, &database) == 0) {
            const int outcome = mdb_drop(in, database, static_cast<int>(i % 2));
            require(!sound || outcome == 0, "a database of a sound store cannot be dropped\n");
        }
    }
    const int outcome = mdb_txn_commit(in);
    require(!sound || outcome == 0, "a sound store does not commit\n");
}

void work_with(MDB_env* env, unsigned control) {
    const int checked = hf_lmdb_check(env, nullptr);
    const int read = read_all(env);
    const bool sound = checked == 0;
    require(!sound || read == 0, "a sound store cannot be read\n");
    if ((control & control_read_only) != 0 || (!sound && (control & control_go_on) == 0)) {
        return;
    }
    for (unsigned round = 0; round < 2; ++round) {
        const int outcome = change_all(env, round * 20, 30, round == 1);
        require(!sound || outcome == 0 || is_of_flags(outcome), "a sound store cannot be changed\n");
    }
    require(!sound || hf_lmdb_check(env, nullptr) == 0, "a sound store is damaged by its own changes\n");
    static_cast<void>(read_all(env));
    drop_all(env, sound);
    require(!sound || hf_lmdb_check(env, nullptr) == 0, "a sound store is damaged by its own removals\n");
    static_cast<void>(change_all(env, 0, 20, false));
}

/// Before the changes.
struct input_head {
    unsigned control;
    unsigned place;
    unsigned choices;
};

void change_as(hostile_store& store, const std::uint8_t* from) {
    std::uint16_t numbers[3];
    std::memcpy(numbers, from, sizeof(numbers));
    // Half of the changes are in the first 64 bytes, where most of what leads elsewhere is, and some in a meta.
    const std::size_t offset = (numbers[1] & 0x8000U) != 0 ? numbers[1] % 64U : numbers[1] % (page_size - 1);
    store.change(numbers[0] % 16 == 0 ? numbers[0] / 16U % meta_pages : numbers[0] / 16U, offset, numbers[2]);
}

void damage(hostile_store& store, std::span<const std::uint8_t> input) {
    for (std::size_t at = head_bytes; at < input.size(); at += change_bytes) {
        if (input.size() - at >= change_bytes) {
            change_as(store, input.data() + at);
            continue;
        }
        // Short inputs make several changes, too.
        std::uint64_t word = bytes_checksum(std::as_bytes(input), at);
        for (std::uint64_t left = 1 + word % 6; left > 0; --left) {
            word = bytes_checksum(std::as_bytes(std::span(&word, 1)), left);
            change_as(store, reinterpret_cast<const std::uint8_t*>(&word));
        }
    }
}

void work_alone(const std::string& path, const hostile_store& hostile, unsigned control) {
    write_file(path, hostile.content());
    int outcome = 0;
    MDB_env* const env = open_store(
        path,
        ((control & control_no_lock) != 0 ? MDB_NOLOCK : 0U) | ((control & control_read_only) != 0 ? MDB_RDONLY : 0U),
        outcome);
    if (outcome == 0) {
        work_with(env, control);
    }
    mdb_env_close(env);
}

std::uint64_t word_for(const hostile_store& hostile, const std::vector<std::uint64_t>& words, const input_head& head) {
    switch (head.place >> 5U & 3U) {
        case 0:
        case 1: return words[head.choices % words.size()];
        case 2: return hostile.transaction_of(head.choices % meta_pages) + head.choices / meta_pages % 4;
        default: return bytes_checksum(std::as_bytes(std::span(&head, 1)), 0) >> head.choices % 64U;
    }
}

void work_in_heap(const std::string& path, const hostile_store& hostile, const std::vector<std::uint64_t>& words,
                  const input_head& head) {
    write_file(path, hostile.content());
    const bool read_only = (head.control & control_read_only) != 0;
    const bool at_once = (head.place & place_at_once) != 0;
    const bool is_other = (head.place & place_of_other) != 0;
    const place_of_store place{.path = path,
                               .flags = (head.place & place_write_map) != 0 ? MDB_WRITEMAP : 0U,
                               .identity = static_cast<std::uint8_t>(sound_identity + (is_other ? 1 : 0))};
    const std::uint64_t word = word_for(hostile, words, head);
    auto store = std::make_unique<hosted_store>(place, word, at_once, read_only ? MDB_RDONLY : 0U);
    const bool sound = store->opened() == 0 && hf_lmdb_check(store->env(), nullptr) == 0;
    require(sound || is_other || hostile.is_changed() || (head.place & 64U) != 0, "a sound store is refused\n");
    require(store->opened() != 0 || hostile.has_identity(place.identity), "the store of another heap was opened\n");
    if (store->opened() != 0) {
        return;
    }
    const int read = read_all(store->env());
    require(!sound || read == 0, "a sound store cannot be read\n");
    if (!read_only && (sound || (head.control & control_go_on) != 0)) {
        life_in_heap(place, sound, word, bytes_checksum(std::as_bytes(std::span(&head, 1)), 1))
            .live(std::move(store), at_once);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const scratch directory;
    static const bytes closed = sound_store(directory, false);
    static const bytes crashed = sound_store(directory, true);
    static const std::vector<sound_store_in_heap> in_heap = sound_stores_in_heap(directory);
    if (size < head_bytes) {
        return 0;
    }
    const input_head head{.control = data[0], .place = data[1], .choices = data[2]};
    const bool is_in_heap = (head.place & place_in_heap) != 0;
    const sound_store_in_heap& of_heap = in_heap[(head.place >> 1U & 3U) % in_heap.size()];
    hostile_store store(is_in_heap ? of_heap.content : (head.control & control_crashed) != 0 ? crashed : closed);
    damage(store, {data, size});
    store.repair(head.control);
    const std::string path = directory.file("hostile");
    if (is_in_heap) {
        work_in_heap(path, store, of_heap.words, head);
    } else {
        work_alone(path, store, head.control);
    }
    return 0;
}
