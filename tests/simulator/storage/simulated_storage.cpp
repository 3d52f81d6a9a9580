#include "simulator/storage/simulated_storage.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.hpp"
#include "base/units.hpp"

namespace holdfast::simulator {

using base::os_failure;
using base::result;
using persist::mutant_active;
using persist::site;
using persist::site_kind;

namespace {

constexpr std::uint64_t punch_atom = 4096;
constexpr std::uint64_t largest_size = std::uint64_t{1} << 44;

result<void> check_range(std::uint64_t offset, std::uint64_t length, const char* operation, const std::string& path) {
    const auto end = base::checked_add(offset, length);
    if (!end || *end > largest_size) {
        return os_failure(EFBIG, operation, path);
    }
    return {};
}

/// Whether two atoms differ. Most have 8 bytes, for which a call would cost more than the comparison.
bool differ(const std::byte* a, const std::byte* b, std::uint64_t length) noexcept {
    if (length == sizeof(std::uint64_t)) {
        std::uint64_t one = 0;
        std::uint64_t other = 0;
        std::memcpy(&one, a, sizeof one);
        std::memcpy(&other, b, sizeof other);
        return one != other;
    }
    return std::memcmp(a, b, length) != 0;
}

}  // namespace

/// An open file. As an inode, its node outlives its name.
class simulated_file final : public persist::file {
public:
    simulated_file(simulated_storage& owner, std::uint32_t id, std::string path, bool writable)
        : owner_(owner), id_(id), path_(std::move(path)), writable_(writable) {}

    [[nodiscard]] const std::string& path() const noexcept override { return path_; }
    [[nodiscard]] int native_handle() const noexcept override { return -1; }
    result<std::uint64_t> size() override { return content().size(); }
    result<std::uint64_t> charged() override { return content().charged(); }

    result<void> read_at(std::uint64_t offset, std::span<std::byte> buffer) override {
        HF_TRY(check_range(offset, buffer.size(), "pread", path_));
        if (offset + buffer.size() > content().size() && !buffer.empty()) {
            base::failure what;
            what.code = base::failure_code::corrupt;
            what.path = path_;
            what.field = "file size";
            what.found = std::to_string(content().size());
            what.expected = "at least " + std::to_string(offset + buffer.size());
            return what;
        }
        content().read(offset, buffer);
        return {};
    }

    result<void> write_at(std::uint64_t offset, std::span<const std::byte> data, site where) override {
        HF_TRY(check_writable(offset, data.size(), "pwrite"));
        if (!mutant_active(where, site_kind::write)) {
            owner_.write(id_, offset, data);
        }
        owner_.done(where);
        return {};
    }

    result<void> write_gather(std::uint64_t offset, std::span<const std::span<const std::byte>> parts,
                              site where) override {
        std::vector<std::byte> all;
        for (const auto part : parts) {
            all.insert(all.end(), part.begin(), part.end());
        }
        return write_at(offset, all, where);
    }

    result<void> sync(site where) override {
        HF_TRY(owner_.check_alive("write", path_));
        if (owner_.fails_sync(id_)) {
            owner_.done(where);
            return os_failure(EIO, "fdatasync", path_);
        }
        if (!mutant_active(where, site_kind::sync)) {
            owner_.sync(id_);
        }
        owner_.done(where);
        return {};
    }

    result<void> sync_mapped(std::uint64_t offset, std::span<const std::byte> mapped, site where) override {
        const bool works = !owner_.next_sync_fails();
        if (!works || !mutant_active(where, site_kind::sync)) {
            owner_.sync_range(id_, offset, mapped.size(), works);
        }
        owner_.done(where);
        return works ? result<void>() : os_failure(EIO, "msync", path_);
    }

    void flush_mapped(std::uint64_t offset, std::span<const std::byte> mapped, site where) noexcept override {
        if (!mutant_active(where, site_kind::flush)) {
            owner_.flush_range(id_, offset, mapped.size());
        }
        owner_.done(where);
    }
    void fence_mapped(site where) noexcept override {
        if (!mutant_active(where, site_kind::fence)) {
            owner_.fence(id_);
        }
        owner_.done(where);
    }

    result<void> resize(std::uint64_t bytes, site where) override {
        HF_TRY(check_writable(bytes, 0, "ftruncate"));
        if (!mutant_active(where, site_kind::size)) {
            owner_.set_size(id_, bytes, simulated_storage::change::kind::set_size);
        }
        owner_.done(where);
        return {};
    }

    result<void> allocate(std::uint64_t offset, std::uint64_t length, site where) override {
        HF_TRY(check_writable(offset, length, "fallocate"));
        if (!mutant_active(where, site_kind::size) && offset + length > content().size()) {
            owner_.set_size(id_, offset + length, simulated_storage::change::kind::grow);
        }
        owner_.done(where);
        return {};
    }

    result<void> punch_hole(std::uint64_t offset, std::uint64_t length, site where) override {
        HF_TRY(check_writable(offset, length, "fallocate(PUNCH_HOLE)"));
        if (!mutant_active(where, site_kind::size)) {
            owner_.zero(id_, offset, length);
        }
        owner_.done(where);
        return {};
    }

    [[nodiscard]] const sparse_content& content() const { return *owner_.nodes_[id_].now; }

private:
    result<void> check_writable(std::uint64_t offset, std::uint64_t length, const char* operation) {
        if (!writable_) {
            return os_failure(EBADF, operation, path_);
        }
        HF_TRY(owner_.check_alive(operation, path_));
        return check_range(offset, length, operation, path_);
    }

    simulated_storage& owner_;
    std::uint32_t id_;
    std::string path_;
    bool writable_;
};

simulated_storage::simulated_storage(std::uint64_t atom_size)
    : simulated_storage(image{std::make_shared<name_map>(), {}}, atom_size) {}

simulated_storage::simulated_storage(const image& start, std::uint64_t atom_size)
    : atom_size_(atom_size), durable_names_(start.names), names_(start.names) {
    HF_ASSERT(base::is_power_of_two(atom_size) && atom_size >= 8 && atom_size <= 4096);
    nodes_.reserve(start.nodes.size());
    for (const auto& one : start.nodes) {
        nodes_.push_back({one.directory, one.content, one.content, {}, one.link});
    }
}

simulated_storage::~simulated_storage() = default;

void simulated_storage::done(site where) {
    ++operations_;
    last_site_ = where;
    if (after_operation_) {
        after_operation_();
    }
}

std::string simulated_storage::position() const {
    return "operation " + std::to_string(operations_) + " (" + last_site_ + "), " + std::to_string(pending_atoms()) +
           " atoms pending";
}

// --- names ---

std::string simulated_storage::parent_of(const std::string& path) {
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? std::string{} : path.substr(0, slash);
}

const storage_image::node_id* simulated_storage::find(const std::string& resolved_path) const {
    const auto found = names_->find(resolved_path);
    return found == names_->end() ? nullptr : &found->second;
}

bool simulated_storage::is_empty(const std::string& directory) const {
    const std::string below = resolved(directory) + "/";
    const auto next = names_->lower_bound(below);
    return next == names_->end() || !next->first.starts_with(below);
}

storage_image::node_id simulated_storage::add_node(bool directory) {
    static const auto empty = std::make_shared<const sparse_content>();
    nodes_.push_back({directory, empty, empty, {}, {}});
    return static_cast<node_id>(nodes_.size() - 1);
}

void simulated_storage::apply(name_map& names, const name_change& one) {
    switch (one.what) {
        case name_change::kind::add: names[one.path] = one.id; return;
        case name_change::kind::remove: names.erase(one.path); return;
        case name_change::kind::move: break;
    }
    const std::string below = one.path + "/";
    name_map moved;
    for (auto at = names.lower_bound(below); at != names.end() && at->first.starts_with(below);) {
        moved.emplace(one.target + "/" + at->first.substr(below.size()), at->second);
        at = names.erase(at);
    }
    names.merge(moved);
    names.erase(one.path);
    names[one.target] = one.id;
}

/// A name is unreachable if its directory did not survive.
void simulated_storage::prune(name_map& names) {
    for (auto at = names.begin(); at != names.end();) {
        const auto parent = parent_of(at->first);
        at = parent.empty() || names.contains(parent) ? std::next(at) : names.erase(at);
    }
}

void simulated_storage::add_name_change(name_change one) {
    auto changed = std::make_shared<name_map>(*names_);
    apply(*changed, one);
    names_ = std::move(changed);
    if (in_peace_) {
        return;
    }
    pending_names_.push_back(std::move(one));
}

result<void> simulated_storage::check_alive(const char* operation, const std::string& path) const {
    return dead_ ? os_failure(EIO, operation, path) : result<void>();
}

result<std::unique_ptr<persist::file>> simulated_storage::open(const std::string& path, persist::access_mode mode) {
    const auto* id = find(resolved_name(path));
    if (id == nullptr) {
        auto what = os_failure(ENOENT, "open", path);
        what.code = base::failure_code::missing;
        return what;
    }
    if (!nodes_[*id].link.empty()) {
        return base::failure{base::failure_code::corrupt, path, "file type", "link", "regular file", {}, 0};
    }
    if (nodes_[*id].directory) {
        return os_failure(EISDIR, "open", path);
    }
    return std::unique_ptr<persist::file>(
        std::make_unique<simulated_file>(*this, *id, path, mode == persist::access_mode::read_write));
}

result<std::unique_ptr<persist::file>> simulated_storage::create(const std::string& path, site where) {
    static_cast<void>(mutant_active(where, site_kind::name));
    HF_TRY(check_alive("create", path));
    HF_TRY(check_parent(path, "create"));
    const std::string name = resolved_name(path);
    if (find(name) != nullptr) {
        return os_failure(EEXIST, "create", path);
    }
    const node_id id = add_node(false);
    add_name_change({name_change::kind::add, name, {}, id});
    done(where);
    return std::unique_ptr<persist::file>(std::make_unique<simulated_file>(*this, id, path, true));
}

result<bool> simulated_storage::exists(const std::string& path) {
    return normal_path(path).empty() || find(resolved_name(path)) != nullptr;
}

result<void> simulated_storage::make_directory(const std::string& path, site where) {
    static_cast<void>(mutant_active(where, site_kind::name));
    HF_TRY(check_alive("mkdir", path));
    HF_TRY(check_parent(path, "mkdir"));
    const std::string name = resolved_name(path);
    if (find(name) != nullptr) {
        return os_failure(EEXIST, "mkdir", path);
    }
    add_name_change({name_change::kind::add, name, {}, add_node(true)});
    done(where);
    return {};
}

result<std::vector<std::string>> simulated_storage::list(const std::string& directory) {
    const std::string of = resolved(directory);
    const auto* id = find(of);
    if (!of.empty() && (id == nullptr || !nodes_[*id].directory)) {
        return os_failure(id == nullptr ? ENOENT : ENOTDIR, "opendir", directory);
    }
    std::vector<std::string> names;
    for (const auto& [path, unused] : *names_) {
        if (parent_of(path) == of) {
            names.push_back(path.substr(of.empty() ? 0 : of.size() + 1));
        }
    }
    std::sort(names.begin(), names.end());
    return names;
}

result<void> simulated_storage::rename(const std::string& from, const std::string& to, site where) {
    static_cast<void>(mutant_active(where, site_kind::name));
    HF_TRY(check_alive("rename", from));
    const std::string old_name = resolved_name(from);
    const std::string new_name = resolved_name(to);
    const auto* source = find(old_name);
    if (source == nullptr) {
        return os_failure(ENOENT, "rename to " + to, from);
    }
    HF_TRY(check_parent(to, "rename"));
    if (const auto* target = find(new_name); target != nullptr) {
        if (nodes_[*target].directory != nodes_[*source].directory) {
            return os_failure(nodes_[*target].directory ? EISDIR : ENOTDIR, "rename to " + to, from);
        }
        if (nodes_[*target].directory && !is_empty(to)) {
            return os_failure(ENOTEMPTY, "rename to " + to, from);
        }
    }
    add_name_change({name_change::kind::move, old_name, new_name, *source});
    done(where);
    return {};
}

result<void> simulated_storage::remove(const std::string& path, site where) {
    static_cast<void>(mutant_active(where, site_kind::name));
    HF_TRY(check_alive("unlink", path));
    const std::string name = resolved_name(path);
    const auto* id = find(name);
    if (id == nullptr) {
        return {};
    }
    if (nodes_[*id].directory && !is_empty(name)) {
        return os_failure(ENOTEMPTY, "rmdir", path);
    }
    add_name_change({name_change::kind::remove, name, {}, *id});
    done(where);
    return {};
}

result<void> simulated_storage::sync_directory(const std::string& path, site where) {
    HF_TRY(check_alive("open", path));
    const std::string directory = resolved(path);
    if (const auto* id = find(directory); !directory.empty() && (id == nullptr || !nodes_[*id].directory)) {
        return os_failure(id == nullptr ? ENOENT : ENOTDIR, "open", path);
    }
    if (!mutant_active(where, site_kind::sync_directory)) {
        auto durable = std::make_shared<name_map>(*durable_names_);
        std::erase_if(pending_names_, [&](const name_change& one) {
            const bool here = parent_of(one.path) == directory ||
                              (one.what == name_change::kind::move && parent_of(one.target) == directory);
            if (here) {
                apply(*durable, one);
            }
            return here;
        });
        durable_names_ = std::move(durable);
    }
    done(where);
    return {};
}

result<void> simulated_storage::copy_content(persist::file& source, persist::file& target,
                                             persist::shared_blocks /*blocks*/, site where) {
    // By reads and writes from one site, so that decorated files can be copied too.
    HF_TRY_ASSIGN(const std::uint64_t size, source.size());
    HF_TRY(target.resize(size, where));
    std::vector<std::byte> block(punch_atom);
    for (std::uint64_t at = 0; at < size; at += block.size()) {
        const auto part = std::span{block}.first(std::min<std::uint64_t>(block.size(), size - at));
        HF_TRY(source.read_at(at, part));
        if (std::any_of(part.begin(), part.end(), [](std::byte value) { return value != std::byte{0}; })) {
            HF_TRY(target.write_at(at, part, where));
        }
    }
    return {};
}

// --- content ---

sparse_content& simulated_storage::writable(std::shared_ptr<const sparse_content>& content) {
    if (content.use_count() == 1) {
        return const_cast<sparse_content&>(*content);  // made by this function and not shared since
    }
    auto copy = std::make_shared<sparse_content>(*content);
    auto& writable = *copy;
    content = std::move(copy);
    return writable;
}

/// The atoms of a write, without those that rewrite what is durably there already.
std::vector<simulated_storage::atom> simulated_storage::atoms_of(const node& of, std::uint64_t offset,
                                                                 std::span<const std::byte> data,
                                                                 std::uint64_t atom_size) {
    std::vector<atom> undecided;  // ranges where pending changes decide what this write finds
    if (of.has_lost) {
        undecided.push_back({offset, data.size()});
    }
    for (const change& one : of.pending) {
        if (one.what == change::kind::set_size) {
            undecided.push_back({offset, data.size()});
        } else if (one.what != change::kind::grow) {
            const std::uint64_t begin = one.atoms.front().offset;
            undecided.push_back({begin, one.atoms.back().offset + one.atoms.back().length - begin});
        }
    }
    std::vector<std::byte> before(data.size());
    of.now->read(offset, before);
    const auto is_change = [&](std::uint64_t at, std::uint64_t length) {
        return differ(before.data() + (at - offset), data.data() + (at - offset), length) ||
               std::any_of(undecided.begin(), undecided.end(),
                           [&](const atom& one) { return one.offset < at + length && at < one.offset + one.length; });
    };
    std::vector<atom> atoms;
    const std::uint64_t end = offset + data.size();
    const auto boundary_after = [end](std::uint64_t at, std::uint64_t size) {
        return std::min(end, (at | (size - 1)) + 1);
    };
    for (std::uint64_t at = offset; at < end;) {
        // Most of a page is unchanged; an unchanged sector is skipped as a whole.
        const std::uint64_t sector_end = boundary_after(at, std::max<std::uint64_t>(atom_size, 512));
        if (!is_change(at, sector_end - at)) {
            at = sector_end;
        }
        while (at < sector_end) {
            const std::uint64_t next = boundary_after(at, atom_size);
            if (is_change(at, next - at)) {
                atoms.push_back({at, next - at});
            }
            at = next;
        }
    }
    return atoms;
}

void simulated_storage::write(node_id id, std::uint64_t offset, std::span<const std::byte> data) {
    if (data.empty()) {
        return;
    }
    if (const std::uint64_t end = offset + data.size(); end > nodes_[id].now->size()) {
        set_size(id, end, change::kind::grow);
    }
    node& of = nodes_[id];
    if (in_peace_) {
        writable(of.now).write(offset, data);
        return;
    }
    change one{change::kind::data, offset, {data.begin(), data.end()}, atoms_of(of, offset, data, atom_size_)};
    if (one.atoms.empty()) {
        return;
    }
    writable(of.now).write(offset, data);
    of.pending.push_back(std::move(one));
}

void simulated_storage::zero(node_id id, std::uint64_t offset, std::uint64_t length) {
    node& of = nodes_[id];
    const std::uint64_t size = of.now->size();
    if (offset >= size || length == 0) {
        return;
    }
    length = std::min(length, size - offset);
    if (in_peace_) {
        writable(of.now).zero(offset, length);
        return;
    }
    change one{change::kind::zero, offset, {}, {}};
    for (std::uint64_t done = 0; done < length;) {
        const std::uint64_t at = offset + done;
        const std::uint64_t step = std::min(length - done, punch_atom - at % punch_atom);
        one.atoms.push_back({at, step});
        done += step;
    }
    writable(of.now).zero(offset, length);
    of.pending.push_back(std::move(one));
}

void simulated_storage::set_size(node_id id, std::uint64_t bytes, change::kind what) {
    node& of = nodes_[id];
    if (bytes == of.now->size() && of.pending.empty()) {
        return;
    }
    writable(of.now).resize(bytes);
    if (in_peace_) {
        return;
    }
    of.pending.push_back({what, bytes, {}, {{bytes, 0}}});
}

void simulated_storage::sync(node_id id) {
    if (in_peace_) {
        return;
    }
    node& of = nodes_[id];
    if (of.has_lost) {
        sparse_content& written = writable(of.durable);
        written.resize(of.now->size());  // a failed sync has lost none for good
        for (const change& one : of.pending) {
            const std::vector<outcome> all(one.atoms.size(), 1);
            apply(written, one, all);
        }
    } else {
        of.durable = of.now;
    }
    of.pending.clear();
}

bool simulated_storage::next_sync_fails() noexcept {
    return !in_peace_ && syncs_before_failure_ != 0 && --syncs_before_failure_ == 0;
}

bool simulated_storage::fails_sync(node_id id) {
    if (!next_sync_fails()) {
        return false;
    }
    if (!on_memory_) {
        nodes_[id].has_lost = nodes_[id].has_lost || !nodes_[id].pending.empty();
        nodes_[id].pending.clear();
    }
    return true;
}

void simulated_storage::apply(sparse_content& content, const change& one, std::span<const outcome> chosen) {
    switch (one.what) {
        case change::kind::set_size:
            if (chosen[0] != 0) {
                content.resize(one.offset);
            }
            return;
        case change::kind::grow:
            if (chosen[0] != 0 && content.size() < one.offset) {
                content.resize(one.offset);
            }
            return;
        case change::kind::data:
        case change::kind::zero: break;
    }
    for (std::size_t i = 0; i < one.atoms.size();) {
        if (chosen[i] == 0) {
            ++i;
            continue;
        }
        const std::uint64_t begin = one.atoms[i].offset;
        std::uint64_t end = begin;
        for (; i < one.atoms.size() && chosen[i] != 0 && one.atoms[i].offset == end; ++i) {
            end += one.atoms[i].length;
        }
        if (one.what == change::kind::zero) {
            content.zero(begin, end - begin);
        } else {
            content.write(begin, std::span{one.bytes}.subspan(begin - one.offset, end - begin));
        }
    }
}

}  // namespace holdfast::simulator
