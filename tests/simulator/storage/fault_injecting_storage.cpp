#include "simulator/storage/fault_injecting_storage.hpp"

#include <optional>
#include <utility>

#include "simulator/storage/decorated_file.hpp"

namespace holdfast::simulator {

using base::result;
using persist::file;
using persist::site;

class fault_injecting_file final : public file {
public:
    fault_injecting_file(std::shared_ptr<fault_state> state, std::unique_ptr<file> inner)
        : state_(std::move(state)), inner_(std::move(inner)) {}

    [[nodiscard]] file& inner() noexcept { return *inner_; }
    [[nodiscard]] const std::string& path() const noexcept override { return inner_->path(); }
    [[nodiscard]] int native_handle() const noexcept override { return inner_->native_handle(); }

    result<std::uint64_t> size() override {
        HF_TRY(state_->next("fstat", path()));
        return inner_->size();
    }
    result<void> read_at(std::uint64_t offset, std::span<std::byte> buffer) override {
        HF_TRY(state_->next("pread", path()));
        return inner_->read_at(offset, buffer);
    }
    result<void> write_at(std::uint64_t offset, std::span<const std::byte> data, site where) override {
        if (auto fault = state_->next("pwrite", path()); !fault) {
            HF_TRY(inner_->write_at(offset, data.first(data.size() / 2), where));
            return fault;
        }
        return inner_->write_at(offset, data, where);
    }
    result<void> write_gather(std::uint64_t offset, std::span<const std::span<const std::byte>> parts,
                              site where) override {
        if (auto fault = state_->next("pwritev", path()); !fault) {
            HF_TRY(inner_->write_gather(offset, parts.first(parts.size() / 2), where));
            return fault;
        }
        return inner_->write_gather(offset, parts, where);
    }
    result<void> sync(site where) override {
        if (sync_failure_) {
            return *sync_failure_;  // as posix_storage: a lost write stays lost
        }
        if (auto fault = state_->next("fdatasync", path()); !fault) {
            sync_failure_ = fault.error();
            return fault;
        }
        return inner_->sync(where);
    }
    result<void> sync_mapped(std::uint64_t offset, std::span<const std::byte> mapped, site where) override {
        if (sync_failure_) {
            return *sync_failure_;
        }
        if (auto fault = state_->next("msync", path()); !fault) {
            sync_failure_ = fault.error();
            return fault;
        }
        return inner_->sync_mapped(offset, mapped, where);
    }
    void flush_mapped(std::uint64_t offset, std::span<const std::byte> mapped, site where) noexcept override {
        inner_->flush_mapped(offset, mapped, where);
    }
    void fence_mapped(site where) noexcept override { inner_->fence_mapped(where); }
    result<void> resize(std::uint64_t bytes, site where) override {
        HF_TRY(state_->next("ftruncate", path()));
        return inner_->resize(bytes, where);
    }
    result<void> allocate(std::uint64_t offset, std::uint64_t length, site where) override {
        HF_TRY(state_->next("fallocate", path()));
        return inner_->allocate(offset, length, where);
    }
    result<void> punch_hole(std::uint64_t offset, std::uint64_t length, site where) override {
        HF_TRY(state_->next("fallocate(PUNCH_HOLE)", path()));
        return inner_->punch_hole(offset, length, where);
    }
    result<std::uint64_t> charged() override {
        HF_TRY(state_->next("fstat", path()));
        return inner_->charged();
    }

private:
    std::shared_ptr<fault_state> state_;
    std::unique_ptr<file> inner_;
    std::optional<base::failure> sync_failure_;
};

void fault_injecting_storage::plan(const fault_plan& faults) {
    state_->plan = faults;
    state_->calls = 0;
    state_->faults = 0;
}

result<void> fault_state::next(const char* operation, const std::string& path) {
    const std::uint64_t call = ++calls;
    const bool here = plan.how == fault_plan::repeat::once ? call == plan.call : call >= plan.call;
    if (plan.call == 0 || !here) {
        return {};
    }
    ++faults;
    auto what = base::os_failure(plan.os_error, operation, path);
    what.hint = "injected at call " + std::to_string(call);
    return what;
}

result<std::unique_ptr<file>> fault_injecting_storage::open(const std::string& path, persist::access_mode mode) {
    HF_TRY(next("open", path));
    HF_TRY_ASSIGN(auto inner, inner_->open(path, mode));
    return std::unique_ptr<file>(std::make_unique<fault_injecting_file>(state_, std::move(inner)));
}

result<std::unique_ptr<file>> fault_injecting_storage::create(const std::string& path, site where) {
    HF_TRY(next("create", path));
    HF_TRY_ASSIGN(auto inner, inner_->create(path, where));
    return std::unique_ptr<file>(std::make_unique<fault_injecting_file>(state_, std::move(inner)));
}

result<bool> fault_injecting_storage::exists(const std::string& path) {
    HF_TRY(next("lstat", path));
    return inner_->exists(path);
}

result<void> fault_injecting_storage::make_directory(const std::string& path, site where) {
    HF_TRY(next("mkdir", path));
    return inner_->make_directory(path, where);
}

result<void> fault_injecting_storage::make_link(const std::string& path, const std::string& target, site where) {
    HF_TRY(next("symlink", path));
    return inner_->make_link(path, target, where);
}

result<std::string> fault_injecting_storage::link_target(const std::string& path) {
    HF_TRY(next("readlink", path));
    return inner_->link_target(path);
}

result<std::string> fault_injecting_storage::identity(const std::string& path) {
    HF_TRY(next("stat", path));
    return inner_->identity(path);
}

result<std::uint64_t> fault_injecting_storage::file_identity(const std::string& path) {
    HF_TRY(next("statx", path));
    return inner_->file_identity(path);
}

result<std::vector<std::string>> fault_injecting_storage::list(const std::string& directory) {
    HF_TRY(next("opendir", directory));
    return inner_->list(directory);
}

result<void> fault_injecting_storage::rename(const std::string& from, const std::string& to, site where) {
    HF_TRY(next("rename", from));
    return inner_->rename(from, to, where);
}

result<void> fault_injecting_storage::remove(const std::string& path, site where) {
    HF_TRY(next("unlink", path));
    return inner_->remove(path, where);
}

result<void> fault_injecting_storage::sync_directory(const std::string& path, site where) {
    HF_TRY(next("fsync", path));
    return inner_->sync_directory(path, where);
}

result<void> fault_injecting_storage::copy_content(file& source, file& target, persist::shared_blocks blocks,
                                                   site where) {
    HF_TRY(next("copy", target.path()));
    return inner_->copy_content(undecorated<fault_injecting_file>(source), undecorated<fault_injecting_file>(target),
                                blocks, where);
}

result<std::shared_ptr<persist::storage>> fault_injecting_storage::hold(const std::string& directory) {
    HF_TRY(next("opendir", directory));
    HF_TRY_ASSIGN(auto held, inner_->hold(directory));
    return std::shared_ptr<persist::storage>(std::make_shared<fault_injecting_storage>(std::move(held), *this));
}

std::shared_ptr<persist::storage> fault_injecting_storage::with(const persist::permissions& of_new) {
    return std::make_shared<fault_injecting_storage>(inner_->with(of_new), *this);
}

result<persist::permissions> fault_injecting_storage::permissions_of(const std::string& directory,
                                                                     const std::string& path) {
    HF_TRY(next("lstat", path));
    return inner_->permissions_of(directory, path);
}

result<std::unique_ptr<file>> fault_injecting_storage::open_directory(const std::string& directory) {
    HF_TRY(next("opendir", directory));
    return inner_->open_directory(directory);
}

result<std::string> fault_injecting_storage::location(const std::string& directory) {
    HF_TRY(next("open", directory));
    return inner_->location(directory);
}

}  // namespace holdfast::simulator
