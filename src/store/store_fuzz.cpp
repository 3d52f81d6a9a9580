// Stores that an adversary wrote, checksums repaired: metas, pages of every kind, the list of free pages, the log. A
// store opens or is refused. If check finds it sound, all that follows succeeds, and check finds it sound afterwards.
// Otherwise anything may be an error, but nothing crashes, hangs or grows without bound.
//
// An input is a control byte and a list of changes to a sound store, which was closed or crashed: the number of a page,
// an offset in it, and two bytes. Control bits: 0 the store that crashed; 1 to 4 which checksums are repaired; 5
// without a lock file; 6 opened read-only; 7 work with a store that is not sound.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/log.hpp"
#include "store/page_checksum.hpp"

namespace {

using namespace holdfast::store_engine;  // NOLINT(google-build-using-namespace): a program of one file
using bytes = std::vector<std::byte>;

constexpr unsigned control_crashed = 1;
constexpr unsigned repair_metas = 2;
constexpr unsigned repair_pages = 4;
constexpr unsigned repair_free_list = 8;
constexpr unsigned repair_log = 16;
constexpr unsigned control_no_lock = 32;
constexpr unsigned control_read_only = 64;
constexpr unsigned control_go_on = 128;

constexpr std::size_t change_bytes = 6;

constexpr unsigned databases = 6;
constexpr const char* names[databases] = {"plain", "few", "many", "packed", "numbers", "reversed"};
constexpr unsigned flags_of[databases] = {0,
                                          MDB_DUPSORT,
                                          MDB_DUPSORT,
                                          MDB_DUPSORT | MDB_DUPFIXED,
                                          MDB_INTEGERKEY,
                                          MDB_REVERSEKEY | MDB_DUPSORT | MDB_REVERSEDUP};

/// The store cannot be wrong, the engine is.
void require(bool what, const char* why) {
    if (!what) {
        static_cast<void>(!::write(STDERR_FILENO, why, std::strlen(why)));
        std::abort();
    }
}

class scratch {
public:
    scratch() {
        const bool in_memory = ::access("/dev/shm", W_OK) == 0;
        std::string pattern = std::string(in_memory ? "/dev/shm" : "/tmp") + "/store-fuzz-XXXXXX";
        require(::mkdtemp(pattern.data()) != nullptr, "no directory");
        path_ = pattern;
    }
    scratch(const scratch&) = delete;
    scratch& operator=(const scratch&) = delete;
    ~scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

private:
    std::string path_;
};

MDB_val value_of(std::string_view text) noexcept { return {text.size(), const_cast<char*>(text.data())}; }

std::string key_of(unsigned database, unsigned number) {
    if (database == 4) {
        const std::uint64_t key = number * 7919ULL;
        return {reinterpret_cast<const char*>(&key), sizeof(key)};
    }
    // Of two databases some are long, and alike but for their ends.
    const std::size_t more = (database == 0 || database == 5) && number % 3 == 0 ? 2500 + number * 20 : 0;
    const std::string key = "key" + std::to_string(number * 7919 % 1000) + std::string(number % 7 * 20, 'k');
    return database == 5 ? key + std::string(more, 'k') : std::string(more, 'k') + key;
}

/// Changes every database; the first outcome that is an error.
int change_all(MDB_env* env, unsigned first, unsigned count, bool remove) {
    MDB_txn* in = nullptr;
    if (const int outcome = mdb_txn_begin(env, nullptr, 0, &in); outcome != 0) {
        return outcome;
    }
    int outcome = 0;
    const auto put = [&](MDB_dbi database, const std::string& key, const std::string& text) {
        MDB_val k = value_of(key);
        MDB_val v = value_of(text);
        outcome = outcome != 0 ? outcome
                  : remove     ? mdb_del(in, database, &k, nullptr)
                               : mdb_put(in, database, &k, &v, 0);
        outcome = remove && outcome == MDB_NOTFOUND ? 0 : outcome;
    };
    for (unsigned i = 0; i < databases && outcome == 0; ++i) {
        MDB_dbi database = 0;
        outcome = mdb_dbi_open(in, names[i], flags_of[i] | MDB_CREATE, &database);
        for (unsigned number = first; number < first + count && outcome == 0; ++number) {
            const std::string key = key_of(i, number);
            const unsigned values = i == 1 || i == 5 ? 3 : (i == 2 || i == 3) && number % 20 == 0 ? 300 : 1;
            for (unsigned value = 0; value < values; ++value) {
                std::string text = "value" + std::to_string(1000 + value);
                text.resize(i == 3 ? 9 : i == 0 && number % 9 == 0 ? 6000 : 30 + number % 40, 'v');
                put(database, key, text);
            }
        }
    }
    if (outcome != 0) {
        mdb_txn_abort(in);
        return outcome;
    }
    return mdb_txn_commit(in);
}

MDB_env* open_store(const std::string& path, unsigned flags, int& outcome) {
    MDB_env* env = nullptr;
    require(mdb_env_create(&env) == 0, "no memory");
    require(mdb_env_set_maxdbs(env, databases + 2) == 0, "no databases");
    require(hf_lmdb_set_maxkeysize(env, HF_LMDB_MOST_KEYSIZE) == 0, "no long keys");
    outcome = mdb_env_open(env, path.c_str(), flags | MDB_NOSUBDIR | MDB_NOSYNC, 0600);
    return env;
}

bytes read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    bytes read(content.size());
    std::memcpy(read.data(), content.data(), content.size());
    return read;
}

/// A store in which each kind of page is; `crashed`: its process ended without closing it, and the log has commits.
bytes sound_store(const scratch& place, bool crashed) {
    const std::string path = place.file(crashed ? "crashed" : "closed");
    const pid_t child = ::fork();
    if (child == 0) {
        int outcome = 0;
        MDB_env* const env = open_store(path, 0, outcome);
        for (unsigned i = 0; i < 5 && outcome == 0; ++i) {
            outcome = change_all(env, i * 30, 30, false);
        }
        outcome = outcome != 0 ? outcome : change_all(env, 20, 25, true);
        if (!crashed) {
            mdb_env_close(env);
        } else if (outcome == 0) {
            mdb_env_close(env);  // a checkpoint, so that records and pages are both needed
            MDB_env* const again = open_store(path, 0, outcome);
            for (unsigned i = 0; i < 4 && outcome == 0; ++i) {
                outcome = change_all(again, i * 40, 3, i % 2 != 0);
            }
        }
        ::_exit(outcome == 0 ? 0 : 1);
    }
    int ended = 0;
    require(::waitpid(child, &ended, 0) == child && ended == 0, "no sound store");
    return read_file(path);
}

/// A store's file in memory, and repairs of what its checksums say.
class hostile_store {
public:
    explicit hostile_store(bytes content) : content_(std::move(content)) {
        std::memcpy(&meta_, content_.data() + newer_meta() * page_size, sizeof(meta_));
    }
    void change(std::size_t page, std::size_t offset, std::uint16_t value) {
        // Of the log, which is mostly empty, the pages that have records.
        page %= pages() - meta_.log_pages + used_log_pages;
        if (page >= meta_.log_page + used_log_pages) {
            page += meta_.log_pages - used_log_pages;
        }
        std::memcpy(content_.data() + page * page_size + offset, &value, sizeof(value));
        touched_.insert(page);
    }
    void repair(unsigned control) {
        for (const std::size_t page : touched_) {
            if (page < meta_pages) {
                if ((control & repair_metas) != 0) {
                    repair_meta(page);
                }
            } else if (is_log(page)) {
                continue;
            } else if ((control & repair_pages) != 0 && page != meta_.free_list) {
                auto& header = *reinterpret_cast<page_header*>(at(page));
                if (header.block.kind != page_kind::run || header.run_pages <= pages() - page) {
                    header.checksum = page_checksum(header, page);
                }
            }
        }
        if ((control & repair_free_list) != 0 && touched_.contains(meta_.free_list)) {
            const std::size_t number = newer_meta();
            auto& meta = *reinterpret_cast<meta_on_media*>(at(number));
            meta.free_list_checksum = bytes_checksum({at(meta_.free_list), meta_.free_list_size}, meta.sequence);
            repair_meta(number);
        }
        if ((control & repair_log) != 0) {
            reseal_log();
        }
    }
    [[nodiscard]] const bytes& content() const noexcept { return content_; }

private:
    static constexpr std::size_t used_log_pages = 4;

    [[nodiscard]] std::size_t pages() const noexcept { return content_.size() / page_size; }
    [[nodiscard]] std::byte* at(std::size_t page) noexcept { return content_.data() + page * page_size; }
    [[nodiscard]] std::size_t newer_meta() const noexcept {
        meta_on_media metas[2];
        std::memcpy(&metas[0], content_.data(), sizeof(metas[0]));
        std::memcpy(&metas[1], content_.data() + page_size, sizeof(metas[1]));
        return metas[1].magic == store_magic && metas[1].sequence > metas[0].sequence ? 1 : 0;
    }
    [[nodiscard]] bool is_log(std::size_t page) const noexcept {
        return page >= meta_.log_page && page < meta_.log_page + meta_.log_pages;
    }
    void repair_meta(std::size_t page) {
        meta_on_media meta;
        std::memcpy(&meta, at(page), sizeof(meta));
        meta.checksum = meta_checksum(meta);
        std::memcpy(at(page), &meta, sizeof(meta));
    }
    // The records as they lay there once: each gets the checksum of what is in it now.
    void reseal_log() {
        std::uint64_t identity = 0;
        std::memcpy(&identity, meta_.uuid.data(), sizeof(identity));
        const std::uint64_t seed = identity ^ meta_.sequence * 0xD6E8FEB86659FD93U;
        const std::span log(at(meta_.log_page), meta_.log_pages * page_size);
        for (std::uint64_t offset = 0; offset + sizeof(log_record_on_media) <= log.size();) {
            log_record_on_media head;
            std::memcpy(&head, log.data() + offset, sizeof(head));
            if (head.size < sizeof(head) || head.size > log.size() - offset || head.transaction == 0) {
                return;
            }
            seal_record(log.subspan(offset, head.size), seed, offset);
            offset += head.size;
        }
    }

    bytes content_;
    meta_on_media meta_{};
    std::set<std::size_t> touched_;
};

/// Reads at most so many entries forward and back; a tree may lead to its pages on many ways. The first error.
int read_database(MDB_txn* in, MDB_dbi database) {
    constexpr unsigned most = 1500;
    MDB_cursor* at = nullptr;
    if (const int outcome = mdb_cursor_open(in, database, &at); outcome != 0) {
        return outcome;
    }
    unsigned sum = 0;
    int outcome = 0;
    for (const MDB_cursor_op step : {MDB_NEXT, MDB_PREV, MDB_NEXT_NODUP, MDB_PREV_NODUP}) {
        MDB_val key{};
        MDB_val value{};
        outcome = mdb_cursor_get(at, &key, &value, step == MDB_NEXT || step == MDB_NEXT_NODUP ? MDB_FIRST : MDB_LAST);
        for (unsigned i = 0; i < most && outcome == 0; ++i) {
            const std::string_view name(static_cast<const char*>(key.mv_data), key.mv_size);
            sum += name.empty() ? 0U : static_cast<unsigned char>(name.back());
            const std::string_view seen(static_cast<const char*>(value.mv_data), value.mv_size);
            sum +=
                seen.empty() ? 0U : static_cast<unsigned char>(seen.front()) + static_cast<unsigned char>(seen.back());
            if (i % 16 == 0) {
                MDB_val same = key;
                MDB_val found{};
                static_cast<void>(mdb_get(in, database, &same, &found));
                std::size_t count = 0;
                static_cast<void>(mdb_cursor_count(at, &count));
            }
            outcome = mdb_cursor_get(at, &key, &value, step);
        }
        if (outcome != 0 && outcome != MDB_NOTFOUND) {
            break;
        }
    }
    mdb_cursor_close(at);
    volatile unsigned used = sum;
    static_cast<void>(used);
    return outcome == MDB_NOTFOUND ? 0 : outcome;
}

int read_all(MDB_env* env) {
    MDB_txn* in = nullptr;
    if (const int outcome = mdb_txn_begin(env, nullptr, MDB_RDONLY, &in); outcome != 0) {
        return outcome;
    }
    int worst = 0;
    for (unsigned i = 0; i <= databases; ++i) {
        MDB_dbi database = 0;
        int outcome = mdb_dbi_open(in, i < databases ? names[i] : nullptr, 0, &database);
        outcome = outcome == 0 ? read_database(in, database) : outcome;
        worst = worst != 0 ? worst : outcome == MDB_NOTFOUND ? 0 : outcome;
    }
    mdb_txn_abort(in);
    return worst;
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
        // A database may have other flags than it had: then its items are not as it wants them.
        require(!sound || outcome == 0 || outcome == MDB_INCOMPATIBLE || outcome == MDB_BAD_VALSIZE,
                "a sound store cannot be changed\n");
    }
    require(!sound || hf_lmdb_check(env, nullptr) == 0, "a sound store is damaged by its own changes\n");
    static_cast<void>(read_all(env));
    drop_all(env, sound);
    require(!sound || hf_lmdb_check(env, nullptr) == 0, "a sound store is damaged by its own removals\n");
    static_cast<void>(change_all(env, 0, 20, false));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const scratch place;
    static const bytes closed = sound_store(place, false);
    static const bytes crashed = sound_store(place, true);
    if (size == 0) {
        return 0;
    }
    const unsigned control = data[0];
    hostile_store store((control & control_crashed) != 0 ? crashed : closed);
    const auto change = [&store](const std::uint8_t* from) {
        std::uint16_t numbers[3];
        std::memcpy(numbers, from, sizeof(numbers));
        // Half of the changes are in the first 64 bytes, and some in a meta, which have most of what leads elsewhere.
        const std::size_t offset = (numbers[1] & 0x8000U) != 0 ? numbers[1] % 64U : numbers[1] % (page_size - 1);
        store.change(numbers[0] % 16 == 0 ? numbers[0] / 16U % meta_pages : numbers[0] / 16U, offset, numbers[2]);
    };
    for (std::size_t at = 1; at < size; at += change_bytes) {
        if (size - at >= change_bytes) {
            change(data + at);
            continue;
        }
        // Short inputs make several changes, too.
        std::uint64_t word = bytes_checksum(std::as_bytes(std::span(data + at, size - at)), at);
        for (std::uint64_t left = 1 + word % 6; left > 0; --left) {
            word = bytes_checksum(std::as_bytes(std::span(&word, 1)), left);
            change(reinterpret_cast<const std::uint8_t*>(&word));
        }
    }
    store.repair(control);
    const std::string path = place.file("hostile");
    {
        std::ofstream file(path, std::ios::binary | std::ios::trunc);
        file.write(reinterpret_cast<const char*>(store.content().data()),
                   static_cast<std::streamsize>(store.content().size()));
    }
    int outcome = 0;
    MDB_env* const env = open_store(
        path,
        ((control & control_no_lock) != 0 ? MDB_NOLOCK : 0U) | ((control & control_read_only) != 0 ? MDB_RDONLY : 0U),
        outcome);
    if (outcome == 0) {
        work_with(env, control);
    }
    mdb_env_close(env);
    return 0;
}
