// Transactions of libpmemobj, as its examples write them: each range is added to the undo log before it is changed.
// Objects are found as pool + offset, which is what pmemobj_direct() computes.
#include <cstdlib>
#include <stdexcept>

#include <fmt/format.h>

#include "allocators/allocation_run.hpp"
#include "allocators/pmemobj_functions.hpp"
#include "transactions/backend.hpp"

namespace transactions {

#if HOLDFAST_BENCH_HAS_PMEMOBJ

namespace {

struct object {
    std::uint64_t words[8];
};
struct entry {
    std::uint64_t key;
    std::uint64_t value;
    PMEMoid next;
};
struct root {
    std::uint64_t word;
    object objects[4];
    PMEMoid made;
    std::uint64_t size;
    PMEMoid buckets[bucket_count];
};

/// Emulated: with flushes forced. Without, the library calls msync for each on files without DAX, which a disk needs.
bench::shared_library load(media on) {
    ::setenv("PMEM_IS_PMEM_FORCE", on == media::emulated ? "1" : "0", 1);
    return {"libpmemobj.so.1", "libpmemobj-dev"};
}

class libpmemobj_backend final : public backend {
public:
    libpmemobj_backend(const std::filesystem::path& directory, media on)
        : library_(load(on)),
          functions_(library_),
          begin_(library_.find<int(PMEMobjpool*, void*, int, ...)>("pmemobj_tx_begin")),
          add_(library_.find<int(const void*, std::size_t)>("pmemobj_tx_add_range_direct")),
          allocate_(library_.find<PMEMoid(std::size_t, std::uint64_t)>("pmemobj_tx_alloc")),
          free_(library_.find<int(PMEMoid)>("pmemobj_tx_free")),
          commit_(library_.find<void()>("pmemobj_tx_commit")),
          end_(library_.find<int()>("pmemobj_tx_end")),
          pool_(functions_.create((directory / "transactions.pool").c_str(), "transactions", std::size_t{1} << 29U,
                                  0600)) {
        if (pool_ == nullptr) {
            throw std::runtime_error(fmt::format("pmemobj_create: {}", functions_.error_message()));
        }
        root_ = at<root>(functions_.root(pool_, sizeof(root)));
    }
    ~libpmemobj_backend() override { functions_.close(pool_); }

    std::string name() const override { return "libpmemobj"; }

    void change_word(std::uint64_t count) override {
        for (std::uint64_t i = 0; i < count; ++i) {
            transact([&] {
                add(root_->word);
                ++root_->word;
            });
        }
    }
    void change_objects(std::uint64_t count) override {
        for (std::uint64_t i = 0; i < count; ++i) {
            transact([&] {
                for (object& each : root_->objects) {
                    add(each);
                    for (std::uint64_t& word : each.words) {
                        ++word;
                    }
                }
                add(root_->made);
                if (root_->made.off != 0) {
                    check(free_(root_->made));
                }
                root_->made = allocate_(sizeof(object), 1);
                *at<object>(root_->made) = root_->objects[0];
            });
        }
    }
    void insert(const std::uint64_t* keys, std::uint64_t count) override {
        for (std::uint64_t i = 0; i < count; ++i) {
            transact([&] {
                PMEMoid& bucket = root_->buckets[bucket_of(keys[i])];
                const PMEMoid made = allocate_(sizeof(entry), 2);
                *at<entry>(made) = {keys[i], i, bucket};
                add(bucket);
                bucket = made;
                add(root_->size);
                ++root_->size;
            });
        }
    }
    void remove(const std::uint64_t* keys, std::uint64_t count) override {
        for (std::uint64_t i = 0; i < count; ++i) {
            transact([&] {
                PMEMoid* link = &root_->buckets[bucket_of(keys[i])];
                while (link->off != 0 && at<entry>(*link)->key != keys[i]) {
                    link = &at<entry>(*link)->next;
                }
                if (link->off == 0) {
                    return;
                }
                const PMEMoid gone = *link;
                add(*link);
                *link = at<entry>(gone)->next;
                check(free_(gone));
                add(root_->size);
                --root_->size;
            });
        }
    }
    std::uint64_t look_up(const std::uint64_t* keys, std::uint64_t count) const override {
        std::uint64_t sum = 0;
        for (std::uint64_t i = 0; i < count; ++i) {
            PMEMoid found = root_->buckets[bucket_of(keys[i])];
            while (found.off != 0 && at<entry>(found)->key != keys[i]) {
                found = at<entry>(found)->next;
            }
            sum += found.off == 0 ? 0 : at<entry>(found)->value;
        }
        return sum;
    }

private:
    template <class T>
    [[nodiscard]] T* at(PMEMoid place) const noexcept {
        return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(pool_) + place.off);
    }
    static void check(int error) {
        if (error != 0) {
            throw std::runtime_error(fmt::format("libpmemobj: error {} in a transaction", error));
        }
    }
    template <class T>
    void add(const T& range) const {
        check(add_(&range, sizeof range));
    }
    template <class Body>
    void transact(Body&& body) const {
        check(begin_(pool_, nullptr, TX_PARAM_NONE));
        body();
        commit_();
        check(end_());
    }

    bench::shared_library library_;
    bench::pmemobj_functions functions_;
    int (*begin_)(PMEMobjpool*, void*, int, ...);
    int (*add_)(const void*, std::size_t);
    PMEMoid (*allocate_)(std::size_t, std::uint64_t);
    int (*free_)(PMEMoid);
    void (*commit_)();
    int (*end_)();
    PMEMobjpool* pool_;
    root* root_ = nullptr;
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
