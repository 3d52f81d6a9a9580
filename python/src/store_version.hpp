// A version of a store, for reading or as a transaction makes it, and the environment that it belongs to. What fails
// is raised as an exception of the package.
//
// Thread safety: all of it runs under the interpreter's lock, which is let go where a call may wait. A version keeps
// its environment open.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <holdfast/store.hpp>
#include <nanobind/nanobind.h>

namespace holdfast::python {

/// The database of a store that has no name.
inline constexpr MDB_dbi unnamed_database = 1;

/// What the exception says of a failure beside its code.
struct store_failure {
    std::string path;
    std::string field;
    std::string found;
    std::string expected;
    std::string hint;
};

/// Raises the exception of the package for the code of an error.
[[noreturn]] void raise_store_error(const char* code, const store_failure& what, int os_error = 0);
/// Raises what the engine's outcome means; returns where it is none. `field`: what the call was about.
void expect(int outcome, const std::string& path, const char* field);

/// The bytes of an object, without a copy. The object must outlive it.
class bytes_view {
public:
    /// `what`: what the error calls it. Raises TypeError where the object has no bytes.
    bytes_view(nanobind::handle from, const char* what);
    bytes_view(const bytes_view&) = delete;
    bytes_view& operator=(const bytes_view&) = delete;
    ~bytes_view() {
        if (is_buffer_) {
            PyBuffer_Release(&buffer_);
        }
    }
    [[nodiscard]] std::string_view text() const noexcept { return text_; }

private:
    std::string_view text_;
    Py_buffer buffer_{};
    bool is_buffer_ = false;
};

/// An open environment, and read transactions that wait for the next read.
class environment {
public:
    environment(std::string path, MDB_env* env);
    environment(const environment&) = delete;
    environment& operator=(const environment&) = delete;
    ~environment();

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] MDB_env* native() const noexcept { return env_; }
    [[nodiscard]] bool is_of_this_process() const noexcept;
    [[nodiscard]] bool is_key(std::string_view text) const noexcept {
        return !text.empty() && text.size() <= longest_key();
    }
    [[nodiscard]] std::size_t longest_key() const noexcept {
        return static_cast<std::size_t>(mdb_env_get_maxkeysize(env_));
    }
    /// Keeps the environment open until the process ends.
    void abandon() noexcept { abandoned_ = true; }
    /// Raises an exception in a child of the process that has opened the environment.
    void expect_process() const;
    [[nodiscard]] MDB_txn* begin_read();
    void end_read(MDB_txn* ended) noexcept;

private:
    static constexpr std::size_t most_idle = 8;

    std::string path_;
    MDB_env* env_;
    std::uint64_t forks_;
    bool abandoned_ = false;
    std::vector<MDB_txn*> idle_;
};

/// A version of the store: for reading, or the one that a transaction makes.
class version {
public:
    /// Waits for another transaction, where it `writes`. `outer`: what it is nested in, or null.
    version(std::shared_ptr<environment> of, std::shared_ptr<version> outer, bool writes);
    version(const version&) = delete;
    version& operator=(const version&) = delete;
    ~version();

    [[nodiscard]] bool is_open() const noexcept { return native_ != nullptr; }
    [[nodiscard]] const std::shared_ptr<environment>& of() const noexcept { return of_; }
    [[nodiscard]] std::uint64_t changes() const noexcept { return changes_; }
    /// The engine's transaction; raises an exception where it has ended, or is another thread's.
    [[nodiscard]] MDB_txn* native(bool to_change) const;

    [[nodiscard]] bool find(std::string_view key, MDB_val& value) const;
    void put(std::string_view key, std::string_view content);
    /// False: the key is not there.
    bool erase(std::string_view key);
    void clear();
    [[nodiscard]] std::size_t size() const;
    /// Ends the version. A second end does nothing.
    void end(bool commit);

private:
    [[noreturn]] void refuse(const char* found, const char* expected) const;
    int finish(bool commit);

    std::shared_ptr<environment> of_;
    std::shared_ptr<version> outer_;
    MDB_txn* native_ = nullptr;
    bool writes_;
    bool inner_ = false;  ///< a nested transaction is open
    std::thread::id owner_;
    std::uint64_t changes_ = 0;
};

}  // namespace holdfast::python
