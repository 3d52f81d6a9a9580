#include <map>

#include "allocators/allocation_run.hpp"
#include "transactions/backend.hpp"
#include "transactions/pmem_maps.hpp"

namespace transactions {

#if HOLDFAST_BENCH_HAS_PMEMOBJ

namespace {

struct object {
    std::uint64_t words[8];
};
constexpr std::size_t words_between = sizeof(word_line) / sizeof(std::uint64_t);
struct root {
    std::uint64_t words[word_lines * words_between];
    object objects[4];
    PMEMoid made;
    pmem_hash_head hash;
    pmem_tree_head b_tree;
    pmem_tree_head red_black_tree;
    pmem_queue_head queue;
};

class libpmemobj_backend final : public backend {
public:
    libpmemobj_backend(const std::filesystem::path& directory, media on)
        : pool_(directory / "transactions.pool", std::size_t{1} << 30U, sizeof(root), on),
          root_(*static_cast<root*>(pool_.root())),
          queue_(make_queue(pool_, root_.queue, queue_bits)) {
        maps_.emplace("hash", make_hash_map(pool_, root_.hash));
        maps_.emplace("btree", make_b_tree(pool_, root_.b_tree));
        maps_.emplace("rbtree", make_red_black_tree(pool_, root_.red_black_tree));
    }

    std::string name() const override { return "libpmemobj"; }

    void change_word(std::uint64_t count, unsigned thread) override {
        std::uint64_t& word = root_.words[thread % word_lines * words_between];
        for (std::uint64_t i = 0; i < count; ++i) {
            pool_.transact([&] { ++pool_.open(word); });
        }
    }
    void change_objects(std::uint64_t count) override {
        for (std::uint64_t i = 0; i < count; ++i) {
            pool_.transact([&] {
                for (object& each : root_.objects) {
                    for (std::uint64_t& word : pool_.open(each).words) {
                        ++word;
                    }
                }
                pool_.open(root_.made);
                if (root_.made.off != 0) {
                    pool_.free(pool_.at<object>(root_.made));
                }
                root_.made = pool_.id_of(pool_.make(root_.objects[0]));
            });
        }
    }
    maps::map& map(std::string_view kind) override { return *maps_.at(kind); }
    maps::queue& queue() override { return *queue_; }

private:
    pmem_pool pool_;
    root& root_;
    std::unique_ptr<maps::queue> queue_;
    std::map<std::string_view, std::unique_ptr<maps::map>> maps_;
};

}  // namespace

std::unique_ptr<backend> make_libpmemobj(const std::filesystem::path& directory, media on) {
    return std::make_unique<libpmemobj_backend>(directory, on);
}

#else

std::unique_ptr<backend> make_libpmemobj(const std::filesystem::path& /*directory*/, media /*on*/) {
    throw bench::backend_unavailable("this build has no libpmemobj: install libpmemobj-dev and configure again");
}

#endif

}  // namespace transactions
