#include "simulator/storage/recording_storage.hpp"

#include <utility>

#include "base/assert.hpp"
#include "simulator/storage/decorated_file.hpp"

namespace holdfast::simulator {

using base::result;
using persist::file;
using persist::site;
using persist::site_kind;

namespace {

/// An empty machine with all directories down to `directory`, durable.
storage_image machine_with(const std::string& directory) {
    storage_image start;
    auto names = std::make_shared<std::map<std::string, storage_image::node_id>>();
    const std::string path = normal_path(directory);
    for (std::size_t end = path.find('/');; end = path.find('/', end + 1)) {
        names->emplace(path.substr(0, end), static_cast<storage_image::node_id>(start.nodes.size()));
        start.nodes.push_back({true, std::make_shared<sparse_content>(), {}});
        if (end == std::string::npos) {
            break;
        }
    }
    start.names = std::move(names);
    return start;
}

}  // namespace

/// A real file and its mirror: what succeeds on the one must succeed on the other.
class recording_file final : public file {
public:
    recording_file(std::shared_ptr<recording_storage::record> of, std::unique_ptr<file> real,
                   std::unique_ptr<file> mirror)
        : record_(std::move(of)), real_(std::move(real)), mirror_(std::move(mirror)), born_(record_->forsaken) {}

    [[nodiscard]] file& inner() noexcept { return *real_; }
    [[nodiscard]] file& mirror() noexcept { return *mirror_; }
    [[nodiscard]] const std::string& path() const noexcept override { return real_->path(); }
    [[nodiscard]] int native_handle() const noexcept override { return real_->native_handle(); }
    result<std::uint64_t> size() override { return real_->size(); }
    result<std::uint64_t> charged() override { return real_->charged(); }
    result<void> read_at(std::uint64_t offset, std::span<std::byte> buffer) override {
        return real_->read_at(offset, buffer);
    }

    result<void> write_at(std::uint64_t offset, std::span<const std::byte> data, site where) override {
        return both(where, site_kind::write, [&](file& one) { return one.write_at(offset, data, where); });
    }
    result<void> write_gather(std::uint64_t offset, std::span<const std::span<const std::byte>> parts,
                              site where) override {
        return both(where, site_kind::write, [&](file& one) { return one.write_gather(offset, parts, where); });
    }
    result<void> sync(site where) override {
        return both(where, site_kind::sync, [&](file& one) { return one.sync(where); });
    }
    result<void> sync_mapped(std::uint64_t offset, std::span<const std::byte> mapped, site where) override {
        return both(where, site_kind::sync, [&](file& one) { return one.sync_mapped(offset, mapped, where); });
    }
    // Lines that another process of the machine has stored to are written back as well. A dead one does nothing.
    void flush_mapped(std::uint64_t offset, std::span<const std::byte> mapped, site where) noexcept override {
        const std::lock_guard lock{record_->mutex};
        if (born_ == record_->forsaken) {
            record_->look(path());
            mirror_->flush_mapped(offset, mapped, where);
        }
    }
    void fence_mapped(site where) noexcept override {
        const std::lock_guard lock{record_->mutex};
        if (born_ == record_->forsaken) {
            record_->look(path());
            mirror_->fence_mapped(where);
        }
    }
    result<void> resize(std::uint64_t bytes, site where) override {
        return both(where, site_kind::size, [&](file& one) { return one.resize(bytes, where); });
    }
    result<void> allocate(std::uint64_t offset, std::uint64_t length, site where) override {
        return both(where, site_kind::size, [&](file& one) { return one.allocate(offset, length, where); });
    }
    result<void> punch_hole(std::uint64_t offset, std::uint64_t length, site where) override {
        return both(where, site_kind::size, [&](file& one) { return one.punch_hole(offset, length, where); });
    }

private:
    template <class Operation>
    result<void> both(site where, site_kind kind, Operation operation) {
        const std::lock_guard lock{record_->mutex};
        if (born_ != record_->forsaken) {
            return base::os_failure(EIO, "write of a dead process", path());
        }
        if (!record_->has_mappings) {
            HF_TRY(operation(*real_));
            return operation(*mirror_);
        }
        record_->look(path());
        // A mapping would show what the mirror leaves out.
        if (kind == site_kind::sync || !persist::mutant_active(where, kind)) {
            HF_TRY(operation(*real_));
        }
        return operation(*mirror_);
    }

    std::shared_ptr<recording_storage::record> record_;
    std::unique_ptr<file> real_;
    std::unique_ptr<file> mirror_;
    std::uint64_t born_;
};

void recording_storage::record::look(const std::string& path) {
    auto file = persist::posix_storage().open_target(path, persist::access_mode::read_only);
    const auto size = file ? (*file)->size() : result<std::uint64_t>(std::uint64_t{0});
    std::vector<std::byte> content(size ? *size : 0);
    if (file && (*file)->read_at(0, content)) {
        mirror->see(path, content, "simulator.mapped");
    }
}

void recording_storage::look_at_mappings() {
    const std::lock_guard lock{record_->mutex};
    const storage_image now = record_->mirror->current();
    for (const auto& [name, id] : *now.names) {
        if (!now.nodes[id].directory) {
            record_->look("/" + name);
        }
    }
}

void recording_storage::forsake_files() {
    look_at_mappings();
    ++record_->forsaken;
}

result<void> recording_storage::undo_forsaken() const {
    const storage_image now = record_->mirror->current();
    for (const auto& [name, id] : *now.names) {
        if (!now.nodes[id].directory) {
            HF_TRY(persist::posix_storage().remove("/" + name, "simulator.undo"));
        }
    }
    return now.materialise(record_->directory, record_->directory);
}

result<void> recording_storage::restart(const storage_image& start) {
    const std::lock_guard lock{record_->mutex};
    ++record_->forsaken;
    const storage_image before = record_->mirror->current();
    for (const auto& [name, id] : *before.names) {
        if (!before.nodes[id].directory) {
            HF_TRY(persist::posix_storage().remove("/" + name, "simulator.restart"));
        }
    }
    record_->mirror = std::make_unique<simulated_storage>(start, record_->atom_size);
    record_->mirror->set_observer(record_->observer);
    if (record_->on_memory) {
        record_->mirror->set_on_memory();
    }
    return start.materialise(record_->directory, record_->directory);
}

recording_storage::record::record(std::string recorded, std::uint64_t bytes_of_atom)
    : directory(std::move(recorded)),
      atom_size(bytes_of_atom),
      mirror(std::make_unique<simulated_storage>(machine_with(directory), bytes_of_atom)) {}

recording_storage::recording_storage(const std::string& directory, std::uint64_t atom_size)
    : real_(std::shared_ptr<persist::storage>(), &persist::posix_storage()),
      record_(std::make_shared<record>(directory, atom_size)) {}

bool recording_storage::recorded(const std::string& path) const {
    const std::string below = normal_path(path);
    const std::string root = normal_path(record_->directory);
    return below == root || below.starts_with(root + "/");
}

result<std::unique_ptr<file>> recording_storage::open(const std::string& path, persist::access_mode mode) {
    const std::lock_guard lock{record_->mutex};
    HF_TRY_ASSIGN(auto real, real_->open(path, mode));
    if (!recorded(path)) {
        return real;
    }
    HF_TRY_ASSIGN(const bool there, record_->mirror->exists(path));
    if (!there) {
        return real;  // made past this storage
    }
    HF_TRY_ASSIGN(auto mirror, record_->mirror->open(path, mode));
    return std::unique_ptr<file>(std::make_unique<recording_file>(record_, std::move(real), std::move(mirror)));
}

result<std::unique_ptr<file>> recording_storage::create(const std::string& path, site where) {
    const std::lock_guard lock{record_->mutex};
    HF_TRY_ASSIGN(auto real, real_->create(path, where));
    if (!recorded(path)) {
        return real;
    }
    HF_TRY_ASSIGN(auto mirror, record_->mirror->create(path, where));
    return std::unique_ptr<file>(std::make_unique<recording_file>(record_, std::move(real), std::move(mirror)));
}

result<bool> recording_storage::exists(const std::string& path) { return real_->exists(path); }

result<void> recording_storage::make_directory(const std::string& path, site where) {
    const std::lock_guard lock{record_->mutex};
    HF_TRY(real_->make_directory(path, where));
    return recorded(path) ? record_->mirror->make_directory(path, where) : result<void>{};
}

result<void> recording_storage::make_link(const std::string& path, const std::string& target, site where) {
    const std::lock_guard lock{record_->mutex};
    HF_TRY(real_->make_link(path, target, where));
    return recorded(path) ? record_->mirror->make_link(path, target, where) : result<void>{};
}

result<std::string> recording_storage::link_target(const std::string& path) { return real_->link_target(path); }
result<std::string> recording_storage::identity(const std::string& path) { return real_->identity(path); }
result<std::uint64_t> recording_storage::file_identity(const std::string& path) {
    HF_TRY_ASSIGN(const std::uint64_t identity, real_->file_identity(path));
    return identity + record_->copies;
}
result<std::vector<std::string>> recording_storage::list(const std::string& directory) {
    return real_->list(directory);
}

result<void> recording_storage::rename(const std::string& from, const std::string& to, site where) {
    const std::lock_guard lock{record_->mutex};
    HF_ASSERT(recorded(from) == recorded(to));
    HF_TRY(real_->rename(from, to, where));
    return recorded(from) ? record_->mirror->rename(from, to, where) : result<void>{};
}

result<void> recording_storage::remove(const std::string& path, site where) {
    const std::lock_guard lock{record_->mutex};
    HF_TRY(real_->remove(path, where));
    return recorded(path) ? record_->mirror->remove(path, where) : result<void>{};
}

result<void> recording_storage::sync_directory(const std::string& path, site where) {
    const std::lock_guard lock{record_->mutex};
    HF_TRY(real_->sync_directory(path, where));
    // The recorded directory's own name counts as durable from the start.
    return recorded(path) ? record_->mirror->sync_directory(path, where) : result<void>{};
}

result<void> recording_storage::copy_content(file& source, file& target, persist::shared_blocks blocks, site where) {
    const std::lock_guard lock{record_->mutex};
    HF_TRY(
        real_->copy_content(undecorated<recording_file>(source), undecorated<recording_file>(target), blocks, where));
    auto* to = dynamic_cast<recording_file*>(&target);
    return to == nullptr ? result<void>{} : record_->mirror->copy_content(source, to->mirror(), blocks, where);
}

result<std::shared_ptr<persist::storage>> recording_storage::hold(const std::string& directory) {
    HF_TRY_ASSIGN(auto held, real_->hold(directory));
    return std::shared_ptr<persist::storage>(std::make_shared<recording_storage>(std::move(held), *this));
}

std::shared_ptr<persist::storage> recording_storage::with(const persist::permissions& of_new) {
    return std::make_shared<recording_storage>(real_->with(of_new), *this);
}

result<persist::permissions> recording_storage::permissions_of(const std::string& directory, const std::string& path) {
    return real_->permissions_of(directory, path);
}

result<std::unique_ptr<file>> recording_storage::open_directory(const std::string& directory) {
    return real_->open_directory(directory);
}

result<std::string> recording_storage::location(const std::string& directory) { return real_->location(directory); }

}  // namespace holdfast::simulator
