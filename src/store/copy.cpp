#include "store/copy.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <span>
#include <unordered_map>
#include <utility>

#include "store/file_size_signal.hpp"
#include "store/outcome.hpp"
#include "store/page_checksum.hpp"
#include "store/transaction.hpp"

namespace holdfast::store_engine {
namespace {

using write_call = std::function<status(std::span<const std::byte>)>;

class page_stream {
public:
    explicit page_stream(write_call write) : write_(std::move(write)) { buffer_.reserve(most + page_size); }
    [[nodiscard]] status append(const void* bytes, std::size_t size) {
        const auto* from = static_cast<const std::byte*>(bytes);
        buffer_.insert(buffer_.end(), from, from + size);
        return buffer_.size() >= most ? flush() : status::ok;
    }
    [[nodiscard]] status flush() {
        HF_STORE_TRY(write_(buffer_));
        buffer_.clear();
        return status::ok;
    }

private:
    static constexpr std::size_t most = std::size_t{1} << 20U;
    write_call write_;
    std::vector<std::byte> buffer_;
};

// Two walks over one version: the first numbers the pages of the copy, the second writes them in order.
class copier {
public:
    copier(transaction_pages& pages, write_call write) : pages_(pages), stream_(std::move(write)) {}

    [[nodiscard]] status copy(const root& version) {
        HF_STORE_TRY(number_tree(version.main, 0));
        HF_STORE_TRY(write_head(version));
        for (const std::uint64_t number : order_) {
            HF_STORE_TRY(write_page(number));
        }
        return stream_.flush();
    }

private:
    [[nodiscard]] status number_tree(const tree_record& record, unsigned nested);
    [[nodiscard]] status number_page(const tree_record& record, std::uint64_t number, unsigned depth, unsigned nested);
    [[nodiscard]] status number_key(const stored_key& key);
    [[nodiscard]] status add(std::uint64_t number, const page_header*& page);
    [[nodiscard]] status write_head(const root& version);
    [[nodiscard]] status write_page(std::uint64_t number);
    void rewrite_key(block_header& block, unsigned index);
    void rewrite_leaf(block_header& block, unsigned index);

    transaction_pages& pages_;
    page_stream stream_;
    std::vector<std::uint64_t> order_;
    std::unordered_map<std::uint64_t, std::uint64_t> numbers_;
    std::uint64_t next_ = meta_pages + least_log_pages;
    bool has_long_keys_ = false;
};

status copier::add(std::uint64_t number, const page_header*& page) {
    HF_STORE_TRY(pages_.get(number, page));
    if (!numbers_.emplace(number, next_).second) {
        return status::corrupted;  // used twice
    }
    order_.push_back(number);
    next_ += page->run_pages;
    return status::ok;
}

status copier::number_tree(const tree_record& record, unsigned nested) {
    if (record.root == 0) {
        return status::ok;
    }
    return nested > most_nested || record.depth > max_depth ? status::corrupted
                                                            : number_page(record, record.root, 1, nested);
}

status copier::number_page(const tree_record& record, std::uint64_t number, unsigned depth, unsigned nested) {
    const page_header* page = nullptr;
    HF_STORE_TRY(add(number, page));
    const block_header& block = page->block;
    const bool is_leaf = depth >= record.depth;
    if (page->run_pages != 1 || is_leaf != (block.kind != page_kind::branch) || block.kind == page_kind::run) {
        return status::corrupted;
    }
    for (unsigned i = 0; i < block.count; ++i) {
        const std::uint16_t flags = flags_at(block, i);
        HF_STORE_TRY(number_key(stored_key_at(block, i)));
        if (!is_leaf) {
            HF_STORE_TRY(number_page(record, child_at(block, i), depth + 1, nested));
        } else if ((flags & node_is_tree) != 0) {
            HF_STORE_TRY(number_tree(record_from(value_at(block, i)), nested + 1));
        } else if ((flags & node_is_long) != 0) {
            const page_header* run = nullptr;
            HF_STORE_TRY(add(long_value_from(value_at(block, i)).page, run));
        }
    }
    return status::ok;
}

status copier::number_key(const stored_key& key) {
    if (!key.is_long) {
        return status::ok;
    }
    const long_key where = long_key_from(key.text);
    const page_header* run = nullptr;
    HF_STORE_TRY(run_of(pages_, where, run));
    has_long_keys_ = true;
    return add(where.where.page, run);
}

status copier::write_head(const root& version) {
    meta_on_media meta{};
    if (::getrandom(meta.uuid.data(), meta.uuid.size(), 0) != static_cast<ssize_t>(meta.uuid.size())) {
        return last_error();
    }
    meta.magic = store_magic;
    meta.version = has_long_keys_ ? store_version : version_without_long_keys;
    meta.page_bytes = page_size;
    meta.transaction = version.transaction;
    meta.main = version.main;
    meta.main.root = version.main.root == 0 ? 0 : numbers_[version.main.root];
    meta.next_page = next_;
    meta.log_page = meta_pages;
    meta.log_pages = least_log_pages;
    meta.map_size = pages_.store().pages().shared().header().map_size.load();
    meta.checksum = meta_checksum(meta);
    HF_STORE_TRY(stream_.append(&meta, sizeof(meta)));
    const std::vector<std::byte> zeros((meta_pages + least_log_pages) * page_size - sizeof(meta));
    return stream_.append(zeros.data(), zeros.size());
}

void copier::rewrite_key(block_header& block, unsigned index) {
    const stored_key stored = stored_key_at(block, index);
    if (stored.is_long) {
        long_key key = long_key_from(stored.text);
        key.where.page = numbers_[key.where.page];
        std::memcpy(mutable_key_at(block, index), &key, sizeof(key));
    }
}

void copier::rewrite_leaf(block_header& block, unsigned index) {
    const std::uint16_t flags = flags_at(block, index);
    std::byte* at = mutable_value_at(block, index);
    if ((flags & node_is_tree) != 0) {
        tree_record record = record_from(value_at(block, index));
        record.root = record.root == 0 ? 0 : numbers_[record.root];
        std::memcpy(at, &record, sizeof(record));
    } else if ((flags & node_is_long) != 0) {
        long_value where = long_value_from(value_at(block, index));
        where.page = numbers_[where.page];
        std::memcpy(at, &where, sizeof(where));
    }
}

status copier::write_page(std::uint64_t number) {
    const page_header* page = nullptr;
    HF_STORE_TRY(pages_.get(number, page));
    std::vector<std::uint64_t> memory(page->run_pages * page_size / sizeof(std::uint64_t));
    std::memcpy(memory.data(), page, page->run_pages * page_size);
    auto* bytes = reinterpret_cast<std::byte*>(memory.data());
    auto& copy = *reinterpret_cast<page_header*>(bytes);
    auto& block = *reinterpret_cast<block_header*>(bytes + offsetof(page_header, block));
    for (unsigned i = 0; i < block.count; ++i) {
        rewrite_key(block, i);
        if (block.kind == page_kind::branch) {
            set_child(block, i, numbers_[child_at(block, i)]);
        } else if (block.kind == page_kind::leaf) {
            rewrite_leaf(block, i);
        }
    }
    copy.checksum = page_checksum(copy, numbers_[number]);
    return stream_.append(memory.data(), memory.size() * sizeof(std::uint64_t));
}

status copy_by(environment& env, write_call write) {
    std::unique_ptr<transaction> reader;
    HF_STORE_TRY(transaction::begin(env, nullptr, MDB_RDONLY, reader));
    return copier(reader->pages(), std::move(write)).copy(reader->version());
}

}  // namespace

status copy_to_file(environment& env, int file) {
    const no_file_size_signal guard;
    return copy_by(env, [file](std::span<const std::byte> rest) {
        while (!rest.empty()) {
            const ssize_t written = ::write(file, rest.data(), rest.size());
            if (written < 0 && errno != EINTR) {
                return last_error();
            }
            rest = rest.subspan(written > 0 ? static_cast<std::size_t>(written) : 0);
        }
        return status::ok;
    });
}

status copy_to_path(environment& env, const char* path) {
    const bool in_directory = !env.has(MDB_NOSUBDIR);
    const std::string name = in_directory ? std::string(path) + "/data.mdb" : std::string(path);
    persist::storage& storage = persist::posix_storage();
    const auto made = storage.with({.files = 0666})->create(name, "store.copy");
    if (!made) {
        return status_of(made.error());
    }
    persist::file& file = **made;
    std::uint64_t offset = 0;
    HF_STORE_TRY(copy_by(env, [&](std::span<const std::byte> bytes) {
        const std::uint64_t at = std::exchange(offset, offset + bytes.size());
        return outcome_of([&] { return file.write_at(at, bytes, "store.copy.write"); });
    }));
    HF_STORE_TRY(outcome_of([&] { return file.sync("store.copy.sync"); }));
    return outcome_of([&] { return storage.sync_directory(directory_of(name), "store.copy.name"); });
}

}  // namespace holdfast::store_engine
