#include "store/lmdb_data.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "lmdb_file/lmdb_file_reader.hpp"
#include "store/cursor.hpp"

namespace holdfast::store_engine {
namespace {

namespace lmdb_file = holdfast_lmdb_file;

constexpr std::size_t spare_bytes = std::size_t{64} << 20U;

std::optional<lmdb_file::claimed_version> read_version(const std::string& path) noexcept {
    const descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    std::array<std::byte, lmdb_file::head_of_meta> head{};
    if (!file.valid() || ::pread(file.get(), head.data(), head.size(), 0) != static_cast<ssize_t>(head.size())) {
        return std::nullopt;
    }
    return lmdb_file::version_of(head);
}

// What is put now is above all that is there. The engine asks with the bytes that it was given: their address says
// which of the two that is.
thread_local const void* put_now = nullptr;

int by_arrival(const MDB_val* a, const MDB_val* b) {
    if (a->mv_size == b->mv_size && std::memcmp(a->mv_data, b->mv_data, a->mv_size) == 0) {
        return 0;
    }
    return a->mv_data == put_now ? 1 : -1;
}

class lmdb_copier {
public:
    lmdb_copier(environment& to, lmdb_file::file_reader& from) noexcept : to_(to), from_(from) {}

    [[nodiscard]] status copy() {
        std::vector<std::pair<std::string, lmdb_file::tree>> named;
        HF_STORE_TRY(copy_main(named));
        for (const auto& [name, tree] : named) {
            HF_STORE_TRY(copy_named(name, tree));
        }
        from_.check_free_pages();
        return status::ok;
    }

private:
    [[nodiscard]] status copy_main(std::vector<std::pair<std::string, lmdb_file::tree>>& named) {
        HF_STORE_TRY(begin(nullptr, from_.newest().main.flags));
        database_state* state = nullptr;
        HF_STORE_TRY(in_->database(number_, state));
        status outcome = status::ok;
        std::string last_key;
        const auto inspect = [&](std::string_view key) {
            if (!last_key.empty() && compare(state->keys, last_key, key) > 0) {
                outcome = status::incompatible;
            }
            last_key = key;
        };
        from_.read_main(
            [&](std::string_view key, std::string_view data) {
                inspect(key);
                outcome = outcome == status::ok ? put(key, data) : outcome;
            },
            [&](std::string_view name, const lmdb_file::tree& tree) {
                inspect(name);
                named.emplace_back(name, tree);
            });
        return outcome == status::ok ? in_->commit() : outcome;
    }

    [[nodiscard]] status copy_named(const std::string& name, const lmdb_file::tree& tree) {
        HF_STORE_TRY(begin(name.c_str(), tree.flags));
        HF_STORE_TRY(in_->set_order(number_, by_arrival, false));
        HF_STORE_TRY(in_->set_order(number_, by_arrival, true));
        status outcome = status::ok;
        from_.read_database(tree, [&](std::string_view key, std::string_view data) {
            outcome = outcome == status::ok ? put(key, data) : outcome;
        });
        HF_STORE_TRY(outcome == status::ok ? in_->commit() : outcome);
        to_.close_handle(number_);  // the next one takes its place
        return status::ok;
    }

    [[nodiscard]] status begin(const char* name, unsigned flags) {
        in_.reset();
        HF_STORE_TRY(transaction::begin(to_, nullptr, 0, in_));
        return in_->open_database(name, (flags & lmdb_file::database_flag::all) | MDB_CREATE, number_);
    }

    [[nodiscard]] status put(std::string_view key, std::string_view data) {
        cursor at(*in_, number_);
        HF_STORE_TRY(at.bind());
        put_now = at.state().values.kind == order_kind::custom ? data.data() : nullptr;
        MDB_val value = to_value(data);
        return at.put(key, &value, 0);
    }

    environment& to_;
    lmdb_file::file_reader& from_;
    std::unique_ptr<transaction> in_;
    MDB_dbi number_ = 0;
};

}  // namespace

bool is_lmdb_data(const std::string& path) noexcept { return read_version(path).has_value(); }

std::string path_of(const descriptor& file) { return "/proc/self/fd/" + std::to_string(file.get()); }

status copy_lmdb_data(const std::string& path, descriptor& memory) {
    const auto claimed = read_version(path);
    if (!claimed) {
        return status::invalid_file;
    }
    if (lmdb_file::layout_of(*claimed) == nullptr) {
        return status::version_mismatch;
    }
    memory = descriptor(::memfd_create("lmdb-data", MFD_CLOEXEC));
    if (!memory.valid()) {
        return last_error();
    }
    try {
        const auto source = lmdb_file::open_file(path);
        lmdb_file::file_reader reader(*source);
        environment made(persist::posix_storage());
        const std::uint64_t needed = 4 * source->size() + spare_bytes;
        HF_STORE_TRY(made.set_map_size(std::max<std::uint64_t>(needed, reader.newest().map_size)));
        HF_STORE_TRY(made.set_max_databases(1));
        HF_STORE_TRY(made.set_max_key(max_long_key));
        HF_STORE_TRY(made.open(path_of(memory).c_str(), MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0600));
        return lmdb_copier(made, reader).copy();
    } catch (const lmdb_file::unsupported_file&) {
        return status::incompatible;
    } catch (const lmdb_file::file_error&) {
        return status::corrupted;
    }
}

}  // namespace holdfast::store_engine
