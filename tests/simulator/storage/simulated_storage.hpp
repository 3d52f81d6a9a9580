// A file system in memory whose power can be cut at any operation; it then shows every image that the contract of
// persist/storage.hpp allows:
// - A write is split into aligned atoms of `atom_size` bytes: 512 for disks, 8 for byte-addressable media. Until sync()
//   of the file has returned, any subset of its atoms may be on media, whatever the order of the writes.
// - A change of size is one atom; so is the growth from a write beyond the end. New bytes are zero. A punched hole is
//   split like a write of zeros, into blocks of 4096 bytes.
// - Each creation, rename and removal of a name is one atom, until sync_directory() of its directory has returned.
//   Either directory makes a rename between two directories durable. sync() of a file does not cover its name.
// - The image of a process crash (all atoms) is among the images.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "persist/mutant.hpp"
#include "persist/storage.hpp"
#include "simulator/choices.hpp"
#include "simulator/storage/sparse_content.hpp"

namespace holdfast::simulator {

/// A path as images list it: no slash at either end, no double slash.
[[nodiscard]] std::string normal_path(const std::string& path);

/// What a power cut leaves, or a whole file system at rest. Copies share their content until one is written.
struct storage_image {
    using node_id = std::uint32_t;
    struct node {
        bool directory = false;
        std::shared_ptr<const sparse_content> content;
        std::string link = {};  ///< target of a symbolic link; empty: no link
    };
    /// By normal_path(); without the root.
    std::shared_ptr<const std::map<std::string, node_id>> names;
    std::vector<node> nodes;

    [[nodiscard]] std::uint64_t hash() const;
    /// The content of a file, which must exist.
    [[nodiscard]] std::vector<std::byte> bytes_of(const std::string& path) const;
    /// Writes what the image holds below `directory` into an existing, empty real directory. Links that point below
    /// `directory` then point below `target`.
    [[nodiscard]] base::result<void> materialise(const std::string& directory, const std::string& target) const;
    /// Reads a real directory into an image.
    [[nodiscard]] static base::result<storage_image> load(const std::string& source, const std::string& directory);
};

class simulated_storage final : public persist::storage {
public:
    using image = storage_image;

    /// atom_size: a power of two, 8 to 4096.
    explicit simulated_storage(std::uint64_t atom_size);
    /// Starts with the image, all of it durable.
    simulated_storage(const image& start, std::uint64_t atom_size);
    ~simulated_storage() override;
    /// The machine after the power is back, with the same atom size.
    [[nodiscard]] std::unique_ptr<simulated_storage> restarted(const image& start) const {
        return std::make_unique<simulated_storage>(start, atom_size_);
    }

    base::result<std::unique_ptr<persist::file>> open(const std::string& path, persist::access_mode mode) override;
    base::result<std::unique_ptr<persist::file>> create(const std::string& path, persist::site where) override;
    base::result<bool> exists(const std::string& path) override;
    base::result<void> make_directory(const std::string& path, persist::site where) override;
    /// `target` is an absolute path.
    base::result<void> make_link(const std::string& path, const std::string& target, persist::site where) override;
    base::result<std::string> link_target(const std::string& path) override;
    base::result<std::string> identity(const std::string& path) override;
    base::result<std::vector<std::string>> list(const std::string& directory) override;
    base::result<void> rename(const std::string& from, const std::string& to, persist::site where) override;
    base::result<void> remove(const std::string& path, persist::site where) override;
    base::result<void> sync_directory(const std::string& path, persist::site where) override;
    base::result<void> copy_content(persist::file& source, persist::file& target, persist::shared_blocks blocks,
                                    persist::site where) override;

    /// Called after each operation that changes what a crash may leave. It may call for_each_crash_image() and nothing
    /// else.
    using observer = std::function<void()>;
    void set_observer(observer after_operation) { after_operation_ = std::move(after_operation); }

    /// A sync of a file fails, after `others` that do not. What it should have written stays to be seen, and no later
    /// sync writes it, as the kernel takes it for written; a new write does.
    void fail_sync(std::uint64_t others) noexcept { syncs_before_failure_ = others + 1; }
    /// Mappings are persistent memory: what a failed sync has not written is still there, and can be flushed.
    void set_on_memory() noexcept { on_memory_ = true; }
    /// None fails any more.
    void let_syncs_work() noexcept { syncs_before_failure_ = 0; }

    /// What programs that map the file see in it: pages that differ were stored to, since the last operation.
    void see(const std::string& path, std::span<const std::byte> content, persist::site where);

    /// The process is dead: no call changes anything, and each that would fails. An observer may call it.
    void die() noexcept { dead_ = true; }
    /// The next process has come.
    void revive() noexcept { dead_ = false; }

    /// From now on nothing can be lost, and no crash images are taken: for a checker after recovery.
    void run_in_peace() noexcept;
    /// Visits the images that a crash may leave now until a visit returns false, and then returns false.
    bool for_each_crash_image(const choice_limits& limits, std::uint64_t seed,
                              const std::function<bool(const image&)>& visit) const;
    /// What a reader sees: the image of a process crash.
    [[nodiscard]] image current() const;
    /// Atoms that are not durable yet.
    [[nodiscard]] std::size_t pending_atoms() const;
    [[nodiscard]] std::uint64_t operations() const noexcept { return operations_; }
    [[nodiscard]] persist::site last_site() const noexcept { return last_site_; }
    /// "operation 17 (commit.journal.sync), 12 atoms pending"
    [[nodiscard]] std::string position() const;

private:
    friend class simulated_file;
    using node_id = image::node_id;

    struct atom {
        std::uint64_t offset;
        std::uint64_t length;
    };
    /// A pending change of a file.
    struct change {
        enum class kind { data, zero, grow, set_size };
        kind what = kind::data;
        std::uint64_t offset = 0;      ///< data, zero: begin; grow, set_size: the size
        std::vector<std::byte> bytes;  ///< data
        std::vector<atom> atoms;       ///< grow and set_size: one, of length 0
        bool is_flushed = false;       ///< durable with the next fence
    };
    struct node {
        bool directory = false;
        std::shared_ptr<const sparse_content> durable;
        std::shared_ptr<const sparse_content> now;
        std::vector<change> pending;
        std::string link = {};
        bool has_lost = false;  ///< a sync has failed: `now` has what `durable` and `pending` lack
    };
    /// A pending change of names, by path: it may follow other pending changes.
    struct name_change {
        enum class kind { add, remove, move };
        kind what = kind::add;
        std::string path;
        std::string target;  ///< of a move
        node_id id = 0;
    };
    using name_map = std::map<std::string, node_id>;

    static std::string parent_of(const std::string& path);
    static void apply(name_map& names, const name_change& one);
    static void prune(name_map& names);
    static void apply(sparse_content& content, const change& one, std::span<const outcome> chosen);

    /// Follows all links but that of the last name. In the form of normal_path().
    [[nodiscard]] std::string resolved_name(const std::string& path) const;
    /// Follows all links.
    [[nodiscard]] std::string resolved(const std::string& path) const;
    [[nodiscard]] const node_id* find(const std::string& resolved_path) const;
    [[nodiscard]] base::result<void> check_alive(const char* operation, const std::string& path) const;
    [[nodiscard]] base::result<void> check_parent(const std::string& path, const char* operation) const;
    [[nodiscard]] bool is_empty(const std::string& directory) const;
    void add_name_change(name_change one);
    node_id add_node(bool directory);
    void done(persist::site where);

    void write(node_id id, std::uint64_t offset, std::span<const std::byte> data);
    void zero(node_id id, std::uint64_t offset, std::uint64_t length);
    void set_size(node_id id, std::uint64_t bytes, change::kind what);
    void sync(node_id id);
    /// Of the pages in the range, and of all sizes.
    void sync_range(node_id id, std::uint64_t offset, std::uint64_t length, bool works);
    /// Persistent memory: of the lines in the range, by the next fence. No instruction makes a size durable.
    void flush_range(node_id id, std::uint64_t offset, std::uint64_t length);
    void fence(node_id id);
    [[nodiscard]] bool next_sync_fails() noexcept;
    [[nodiscard]] bool fails_sync(node_id id);
    static sparse_content& writable(std::shared_ptr<const sparse_content>& content);
    static std::vector<atom> atoms_of(const node& of, std::uint64_t offset, std::span<const std::byte> data,
                                      std::uint64_t atom_size);
    [[nodiscard]] choice_space choices() const;
    [[nodiscard]] image build(std::span<const outcome> chosen) const;

    std::uint64_t atom_size_;
    std::shared_ptr<const name_map> durable_names_;
    std::shared_ptr<const name_map> names_;
    std::vector<name_change> pending_names_;
    std::vector<node> nodes_;
    bool in_peace_ = false;
    bool dead_ = false;
    bool on_memory_ = false;
    std::uint64_t syncs_before_failure_ = 0;  ///< and that one; 0: none fails
    std::uint64_t operations_ = 0;
    persist::site last_site_ = "start";
    observer after_operation_;
};

}  // namespace holdfast::simulator
