#include "store_tools/migration.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "lmdb_file/lmdb_file_reader.hpp"
#include "lmdb_file/lmdb_file_writer.hpp"
#include "store_tools/handles.hpp"
#include "store_tools/tool.hpp"

namespace holdfast_store_tools {
namespace {

namespace fs = std::filesystem;
namespace lmdb_file = holdfast_lmdb_file;

constexpr std::uint64_t items_of_a_transaction = 100'000;
constexpr std::uint64_t bytes_of_a_transaction = 64U << 20U;

[[noreturn]] void fail(const std::string& what, const std::string& path) {
    throw std::runtime_error(path + ": " + what + ": " + std::strerror(errno));
}

void sync(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0 || ::fsync(file) != 0) {
        const int code = errno;
        ::close(file);
        errno = code;
        fail("cannot be made durable", path);
    }
    ::close(file);
}

/// A directory beside the one that is to appear, which takes its name, or what is in it, at the end.
class hidden_directory {
public:
    explicit hidden_directory(const std::string& destination) : destination_(destination) {
        while (destination_.size() > 1 && destination_.back() == '/') {
            destination_.pop_back();
        }
        if (fs::exists(fs::symlink_status(destination_))) {
            throw std::runtime_error(destination_ + ": it exists already");
        }
        path_ = destination_ + ".new-XXXXXX";
        if (::mkdtemp(path_.data()) == nullptr) {
            fail("cannot be created", path_);
        }
    }
    hidden_directory(const hidden_directory&) = delete;
    hidden_directory& operator=(const hidden_directory&) = delete;
    ~hidden_directory() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    /// The directory, or a file of it, takes the name; durable.
    void publish(const std::optional<std::string>& file) {
        const std::string from = file ? path_ + "/" + *file : path_;
        // mkdtemp() lets nobody else in; the destination is as mkdir() would have it.
        const mode_t mask = ::umask(0);
        ::umask(mask);
        if (!file && ::chmod(path_.c_str(), 0777 & ~mask) != 0) {
            fail("its mode cannot be changed", path_);
        }
        sync(from);
        if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, destination_.c_str(), RENAME_NOREPLACE) != 0) {
            fail("cannot be renamed to " + destination_, from);
        }
        const fs::path parent = fs::path(destination_).parent_path();
        sync(parent.empty() ? "." : parent.string());
    }

private:
    std::string destination_;
    std::string path_;
};

// --- import ---------------------------------------------------------------------------------------------------------

/// In transactions of some size.
class import_target {
public:
    import_target(const environment& to, bool sort, migration_result& result)
        : to_(to), sort_(sort), result_(result), transaction_(std::make_unique<transaction>(to)) {}

    [[nodiscard]] MDB_dbi open(const char* name, unsigned flags) {
        MDB_dbi database = 0;
        expect_success("mdb_dbi_open", mdb_dbi_open(transaction_->get(), name, flags | MDB_CREATE, &database));
        ++result_.databases;
        earlier_.reset();
        duplicates_ = (flags & MDB_DUPSORT) != 0;
        return database;
    }

    void put(MDB_dbi database, std::string_view key, std::string_view data) {
        MDB_val k = value_of(key);
        MDB_val d = value_of(data);
        check_order(database, k, d);
        expect_success("mdb_put", mdb_put(transaction_->get(), database, &k, &d, 0));
        ++result_.items;
        result_.bytes += key.size() + data.size();
        bytes_ += key.size() + data.size();
        if (++items_ >= items_of_a_transaction || bytes_ >= bytes_of_a_transaction) {
            commit();
            transaction_ = std::make_unique<transaction>(to_);
        }
    }

    void commit() {
        transaction_->commit();
        transaction_.reset();
        items_ = 0;
        bytes_ = 0;
    }

private:
    void check_order(MDB_dbi database, const MDB_val& key, const MDB_val& data) {
        if (sort_) {
            return;
        }
        if (earlier_) {
            const MDB_val earlier_key = value_of(earlier_->first);
            const MDB_val earlier_data = value_of(earlier_->second);
            int order = mdb_cmp(transaction_->get(), database, &earlier_key, &key);
            if (order == 0 && duplicates_) {
                order = mdb_dcmp(transaction_->get(), database, &earlier_data, &data);
            }
            if (order >= 0) {
                throw std::runtime_error(
                    "a database is not sorted as its flags say: a function of a program sorts it, or it is damaged; "
                    "with --sort it becomes sorted as its flags say");
            }
        }
        earlier_.emplace(bytes_of(key), duplicates_ ? bytes_of(data) : std::string_view());
    }

    const environment& to_;
    bool sort_;
    migration_result& result_;
    std::unique_ptr<transaction> transaction_;
    bool duplicates_ = false;
    std::optional<std::pair<std::string, std::string>> earlier_;
    std::uint64_t items_ = 0;
    std::uint64_t bytes_ = 0;
};

void import_all(lmdb_file::file_reader& from, const environment& to, bool sort, migration_result& result) {
    struct named {
        std::string name;
        lmdb_file::tree tree;
    };
    std::vector<named> databases;
    import_target target(to, sort, result);
    const MDB_dbi main = target.open(nullptr, from.newest().main.flags & lmdb_file::database_flag::all);
    from.read_main([&](std::string_view key, std::string_view data) { target.put(main, key, data); },
                   [&](std::string_view name, const lmdb_file::tree& tree) {
                       if (name.empty() || name.find('\0') != std::string_view::npos) {
                           throw std::runtime_error("a database has a name that LMDB cannot open");
                       }
                       databases.push_back({std::string(name), tree});
                   });
    for (const named& one : databases) {
        const MDB_dbi database = target.open(one.name.c_str(), one.tree.flags & lmdb_file::database_flag::all);
        from.read_database(one.tree,
                           [&](std::string_view key, std::string_view data) { target.put(database, key, data); });
    }
    from.check_free_pages();
    target.commit();
}

// --- export ---------------------------------------------------------------------------------------------------------

lmdb_file::tree export_database(
    const transaction& in, MDB_dbi database, lmdb_file::page_writer& pages, migration_result& result,
    const std::function<bool(const std::string&, lmdb_file::database_writer&)>& is_database) {
    unsigned flags = 0;
    expect_success("mdb_dbi_flags", mdb_dbi_flags(in.get(), database, &flags));
    lmdb_file::database_writer writer(pages, flags);
    reading_cursor over(in, database);
    MDB_val key{};
    MDB_val data{};
    ++result.databases;
    while (over.move(key, data)) {
        if (is_database && is_database(std::string(bytes_of(key)), writer)) {
            continue;
        }
        writer.add(bytes_of(key), bytes_of(data));
        ++result.items;
        result.bytes += key.mv_size + data.mv_size;
    }
    return writer.finish();
}

void write_all(int file, const std::string& path, std::uint64_t offset, lmdb_file::bytes content) {
    while (!content.empty()) {
        const ssize_t written = ::pwrite(file, content.data(), content.size(), static_cast<off_t>(offset));
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written < 0) {
            fail("cannot be written", path);
        }
        offset += static_cast<std::uint64_t>(written);
        content = content.subspan(static_cast<std::size_t>(written));
    }
}

void export_all(const std::string& from, const std::string& path, unsigned flags, migration_result& result) {
    environment_limits limits;
    limits.databases = 2;
    const environment opened(from, flags | MDB_RDONLY, limits);
    const transaction in(opened, MDB_RDONLY);
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0664);
    if (file < 0) {
        fail("cannot be created", path);
    }
    const std::unique_ptr<const int, void (*)(const int*)> closed(&file, [](const int* one) { ::close(*one); });
    const lmdb_file::page_sink sink = [&](std::uint64_t offset, lmdb_file::bytes content) {
        write_all(file, path, offset, content);
    };
    lmdb_file::page_writer pages(sink);
    MDB_dbi main = 0;
    expect_success("mdb_dbi_open", mdb_dbi_open(in.get(), nullptr, 0, &main));
    const auto export_named = [&](const std::string& name, lmdb_file::database_writer& writer) {
        const auto named = find_database(in, name);
        if (named) {
            writer.add_database(name, export_database(in, *named, pages, result, {}));
            close_database(in, *named);
        }
        return named.has_value();
    };
    const lmdb_file::tree tree = export_database(in, main, pages, result, export_named);
    MDB_envinfo information{};
    expect_success("mdb_env_info", mdb_env_info(opened.get(), &information));
    lmdb_file::write_meta(sink, pages, tree, information.me_mapsize);
    if (::fsync(file) != 0) {
        fail("cannot be made durable", path);
    }
}

}  // namespace

migration_result import_environment(const std::string& from, const std::string& to, const migration_options& how) {
    migration_result result;
    const auto source = lmdb_file::open_file(from);
    lmdb_file::file_reader reader(*source);
    hidden_directory place(to);
    {
        environment_limits limits;
        limits.databases = 65536;
        limits.long_keys = true;
        // Values that fill half a page of the source may take twice their room; addresses cost nothing.
        limits.map_size = std::max<std::uint64_t>(reader.newest().map_size, 4 * source->size() + (64U << 20U));
        const std::string path = how.no_subdirectory ? place.path() + "/data.mdb" : place.path();
        const environment opened(path, MDB_NOSYNC | (how.no_subdirectory ? MDB_NOSUBDIR : 0U), limits);
        import_all(reader, opened, how.sort, result);
        expect_success("mdb_env_sync", mdb_env_sync(opened.get(), 1));
    }
    result.warnings = reader.warnings();
    place.publish(how.no_subdirectory ? std::optional<std::string>("data.mdb") : std::nullopt);
    return result;
}

migration_result export_environment(const std::string& from, const std::string& to, const migration_options& how) {
    migration_result result;
    hidden_directory place(to);
    export_all(from, place.path() + "/data.mdb", how.no_subdirectory ? MDB_NOSUBDIR : 0U, result);
    place.publish(how.no_subdirectory ? std::optional<std::string>("data.mdb") : std::nullopt);
    return result;
}

void copy_environment(const std::string& from, const std::string& to) {
    const bool is_file = !fs::is_directory(from);
    const environment opened(from, MDB_RDONLY | (is_file ? MDB_NOSUBDIR : 0U));
    hidden_directory place(to);
    const std::string file = place.path() + "/data.mdb";
    expect_success("mdb_env_copy", mdb_env_copy(opened.get(), is_file ? file.c_str() : place.path().c_str()));
    sync(file);
    place.publish(is_file ? std::optional<std::string>("data.mdb") : std::nullopt);
}

}  // namespace holdfast_store_tools
