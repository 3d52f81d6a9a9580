// For the fuzzer of stores: what lies in its stores, how that is read and changed, and how their files are damaged.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <array>
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

namespace holdfast::store_engine::fuzz {

using bytes = std::vector<std::byte>;

constexpr unsigned repair_metas = 2;
constexpr unsigned repair_pages = 4;
constexpr unsigned repair_free_list = 8;
constexpr unsigned repair_log = 16;

constexpr unsigned databases = 6;
constexpr const char* names[databases] = {"plain", "few", "many", "packed", "numbers", "reversed"};
constexpr unsigned flags_of[databases] = {0,
                                          MDB_DUPSORT,
                                          MDB_DUPSORT,
                                          MDB_DUPSORT | MDB_DUPFIXED,
                                          MDB_INTEGERKEY,
                                          MDB_REVERSEKEY | MDB_DUPSORT | MDB_REVERSEDUP};
constexpr unsigned all_databases = (1U << databases) - 1;

/// The engine is wrong, not the store.
inline void require(bool what, const char* why) {
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

inline bytes read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    bytes read(content.size());
    std::memcpy(read.data(), content.data(), content.size());
    return read;
}

inline void write_file(const std::string& path, const bytes& content) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
}

/// `make` returns 0. Its process ends without closing the store.
template <class Make>
void in_process_that_dies(Make make) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::_exit(make() == 0 ? 0 : 1);
    }
    int ended = 0;
    require(::waitpid(child, &ended, 0) == child && ended == 0, "no sound store\n");
}

// --- contents -------------------------------------------------------------------------------------------------------

inline MDB_val value_of(std::string_view text) noexcept { return {text.size(), const_cast<char*>(text.data())}; }

inline std::string key_of(unsigned database, unsigned number) {
    if (database == 4) {
        const std::uint64_t key = number * 7919ULL;
        return {reinterpret_cast<const char*>(&key), sizeof(key)};
    }
    // Of two databases some are long, and differ only in their ends.
    const std::size_t more = (database == 0 || database == 5) && number % 3 == 0 ? 2500 + number * 20 : 0;
    const std::string key = "key" + std::to_string(number * 7919 % 1000) + std::string(number % 7 * 20, 'k');
    return database == 5 ? key + std::string(more, 'k') : std::string(more, 'k') + key;
}

/// In the databases of the bits `which`; returns the first error.
inline int change(MDB_txn* in, unsigned first, unsigned count, bool remove, unsigned which = all_databases) {
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
        if ((which >> i & 1U) == 0) {
            continue;
        }
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
    return outcome;
}

/// In every database; returns the first error.
inline int change_all(MDB_env* env, unsigned first, unsigned count, bool remove) {
    MDB_txn* in = nullptr;
    if (const int outcome = mdb_txn_begin(env, nullptr, 0, &in); outcome != 0) {
        return outcome;
    }
    if (const int outcome = change(in, first, count, remove); outcome != 0) {
        mdb_txn_abort(in);
        return outcome;
    }
    return mdb_txn_commit(in);
}

/// Where a database has other flags now, its items do not suit them.
inline bool is_of_flags(int outcome) noexcept { return outcome == MDB_INCOMPATIBLE || outcome == MDB_BAD_VALSIZE; }

/// At most so many entries, for a tree may lead to its pages on many ways. Returns the first error.
inline int read_database(MDB_txn* in, MDB_dbi database) {
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

inline int read_all(MDB_env* env) {
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

// --- damage ---------------------------------------------------------------------------------------------------------

class hostile_store {
public:
    explicit hostile_store(bytes content) : content_(std::move(content)) {
        for (std::size_t number = 0; number < meta_pages; ++number) {
            std::memcpy(&metas_[number], at(number), sizeof(metas_[number]));
        }
        meta_ = metas_[newer_meta()];
        in_heap_ = meta_.version == version_in_heap;
        const std::size_t part = meta_.log_pages / (in_heap_ ? 2 : 1);
        for (std::size_t page = 0; page < pages(); ++page) {
            // Of the log, which is mostly empty, those with records.
            if (!is_log(page) || (page - meta_.log_page) % part < used_log_pages) {
                worth_changing_.push_back(page);
            }
        }
    }
    void change(std::size_t page, std::size_t offset, std::uint16_t value) {
        page = worth_changing_[page % worth_changing_.size()];
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
            } else if ((control & repair_pages) != 0 && page != metas_[0].free_list && page != metas_[1].free_list) {
                auto& header = *reinterpret_cast<page_header*>(at(page));
                if (header.block.kind != page_kind::run || header.run_pages <= pages() - page) {
                    header.checksum = page_checksum(header, page);
                }
            }
        }
        for (std::size_t number = 0; number < meta_pages && (control & repair_free_list) != 0; ++number) {
            const meta_on_media& before = metas_[number];
            if (before.free_list >= meta_pages && touched_.contains(before.free_list)) {
                auto& meta = *reinterpret_cast<meta_on_media*>(at(number));
                meta.free_list_checksum = bytes_checksum({at(before.free_list), before.free_list_size}, meta.sequence);
                repair_meta(number);
            }
        }
        if ((control & repair_log) != 0) {
            reseal_log();
        }
    }
    [[nodiscard]] std::uint64_t transaction_of(std::size_t number) const noexcept {
        meta_on_media meta;
        std::memcpy(&meta, content_.data() + number * page_size, sizeof(meta));
        return meta.transaction;
    }
    /// Whether a meta has this identity: a byte, and zeros behind it.
    [[nodiscard]] bool has_identity(std::uint8_t first) const noexcept {
        std::array<std::uint8_t, 16> wanted{first};
        meta_on_media metas[meta_pages];
        for (std::size_t number = 0; number < meta_pages; ++number) {
            std::memcpy(&metas[number], content_.data() + number * page_size, sizeof(metas[number]));
        }
        return metas[0].uuid == wanted || metas[1].uuid == wanted;
    }
    [[nodiscard]] bool is_changed() const noexcept { return !touched_.empty(); }
    [[nodiscard]] const bytes& content() const noexcept { return content_; }

private:
    static constexpr std::size_t used_log_pages = 4;

    [[nodiscard]] std::size_t pages() const noexcept { return content_.size() / page_size; }
    [[nodiscard]] std::byte* at(std::size_t page) noexcept { return content_.data() + page * page_size; }
    [[nodiscard]] std::size_t newer_meta() const noexcept {
        return metas_[1].magic == store_magic && metas_[1].sequence > metas_[0].sequence ? 1 : 0;
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
    // Where records lay once: each gets the checksum of what is there now.
    void reseal_log() {
        const std::size_t size = meta_.log_pages * page_size;
        if (!in_heap_) {
            reseal({at(meta_.log_page), size}, meta_.sequence);
            return;
        }
        for (std::size_t half = 0; half < 2; ++half) {  // a checkpoint has the half that its page says
            reseal({at(meta_.log_page) + half * size / 2, size / 2}, metas_[half].sequence);
        }
    }
    void reseal(std::span<std::byte> log, std::uint64_t sequence) {
        const std::uint64_t key = log_key(meta_.uuid, sequence);
        for (log::mark end; end.position + log::header_size <= log.size();) {
            log::record_header_on_media header;
            std::memcpy(&header, log.data() + end.position, sizeof(header));
            const std::uint64_t space = log::space_of(header.size);
            if (space > log.size() - end.position || header.sequence == 0) {
                return;
            }
            end.sequence = header.sequence - 1;
            end = log::seal(log.subspan(end.position, space), header.size, end, {.epoch = header.epoch, .key = key});
        }
    }

    bytes content_;
    meta_on_media metas_[meta_pages]{};
    meta_on_media meta_{};  ///< the newer one
    bool in_heap_ = false;
    std::vector<std::size_t> worth_changing_;
    std::set<std::size_t> touched_;
};

}  // namespace holdfast::store_engine::fuzz
