#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>

#include <holdfast/transaction.hpp>
#include <maps/open_map.hpp>
#include <maps/ring_queue.hpp>

#include "transactions/backend.hpp"

namespace transactions {

namespace {

using namespace holdfast;

struct object {
    std::uint64_t words[8];
};

open_options options(media on) {
    open_options wanted;
    wanted.durability = durability::atomic;
    wanted.domain = on == media::disk ? open_options::domain_choice::disk : open_options::domain_choice::emulated;
    wanted.accept_process_crash_only = true;
    wanted.commit_on_close = false;
    return wanted;
}

class holdfast_backend final : public backend {
public:
    holdfast_backend(const std::filesystem::path& directory, media on)
        : heap_(create_only, (directory / "transactions.hf").string(), options(on)),
          words_(heap_.construct<word_line>("words")[word_lines]()),
          objects_(heap_.construct<object>("objects")[4](object{})),
          made_(*heap_.construct<ptr<object>>("made")()),
          queue_(heap_, "queue", queue_bits) {
        for (const std::string_view kind : maps::map_names()) {
            maps_.emplace(kind, maps::open_map(heap_, kind));
        }
    }

    std::string name() const override { return "holdfast"; }

    void change_word(std::uint64_t count, unsigned thread) override {
        std::uint64_t& word = words_[thread % word_lines].word;
        for (std::uint64_t i = 0; i < count; ++i) {
            heap_.transact([&](transaction& tx) { tx.open(word) += 1; });
        }
    }
    void change_objects(std::uint64_t count) override {
        for (std::uint64_t i = 0; i < count; ++i) {
            heap_.transact([&](transaction& tx) {
                for (object* each = objects_; each != objects_ + 4; ++each) {
                    object& changed = tx.open(*each);
                    std::for_each(std::begin(changed.words), std::end(changed.words), [](auto& word) { ++word; });
                }
                if (made_ != nullptr) {
                    tx.destroy(made_.get());
                }
                tx.store(made_, tx.make<object>(objects_[0]));
            });
        }
    }
    maps::map& map(std::string_view kind) override { return *maps_.at(kind); }
    maps::queue& queue() override { return queue_; }

private:
    manager heap_;
    word_line* words_;
    object* objects_;
    ptr<object>& made_;
    maps::ring_queue queue_;
    std::map<std::string_view, std::unique_ptr<maps::checked_map>> maps_;
};

}  // namespace

std::unique_ptr<backend> make_holdfast(const std::filesystem::path& directory, media on) {
    return std::make_unique<holdfast_backend>(directory, on);
}

double time_of_a_record(const std::filesystem::path& directory, std::uint64_t pairs) {
    manager heap(create_only, (directory / "records.hf").string(), options(media::emulated));
    auto& destination = *heap.construct<ptr<object>>("destination")();
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < pairs; ++i) {
        heap.allocate_to(destination, sizeof(object));
        heap.free_from(destination);
    }
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
    heap.close();
    manager::remove((directory / "records.hf").string());
    return taken.count() / static_cast<double>(2 * pairs);
}

}  // namespace transactions
