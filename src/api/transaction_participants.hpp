// What counts together with a transaction. For its thread alone.
//
// Those of a transact() and of the parts within it are in one list, each with the number of its part: 1 is the
// outermost, and the innermost comes last. Those of a transaction that stands alone have the number 0.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include <holdfast/detail/heap_participants.hpp>

namespace holdfast::detail {

class transaction_participants {
public:
    [[nodiscard]] bool empty() const noexcept { return all_.empty(); }
    /// Of this part, or null.
    [[nodiscard]] std::shared_ptr<transaction_participant> find(const void* key, unsigned part) const {
        const std::size_t at = find_below(all_.size(), key);
        return at == none || all_[at].part != part ? nullptr : all_[at].participant;
    }
    /// Of the nearest part around the innermost one, where that has none of its own; or null.
    [[nodiscard]] std::shared_ptr<transaction_participant> find_around(const void* key) const {
        const std::size_t at = find_below(all_.size(), key);
        return at == none ? nullptr : all_[at].participant;
    }
    /// `part`: the innermost.
    void add(const void* key, unsigned part, std::shared_ptr<transaction_participant> participant) {
        all_.push_back({key, part, std::move(participant)});
    }
    /// `store` gets the place of each word and its value. Where it throws, none counts, and all have yet to end.
    template <class Store>
    void prepare(Store store) const {
        if (torn_ != nullptr) {
            std::rethrow_exception(torn_);
        }
        for (const entry& each : all_) {
            const transaction_participant::word word = each.participant->prepare();
            if (word.place != nullptr) {
                store(*word.place, word.value);
            }
        }
    }
    /// The innermost part ends, and belongs to the one around it from now on. Where it throws, the part can only be
    /// dropped; where another participant was handed over before, the outermost, too: prepare() throws.
    void join(unsigned part) {
        bool is_handed_over = false;
        for (std::size_t i = all_.size(); i-- > 0 && all_[i].part == part;) {
            const std::size_t around = find_below(i, all_[i].key);
            if (around == none || all_[around].part + 1 != part) {
                continue;
            }
            try {
                all_[i].participant->join();
            } catch (...) {
                if (is_handed_over) {
                    torn_ = std::current_exception();
                    torn_in_ = part - 1;
                }
                throw;
            }
            is_handed_over = true;
            all_[i].participant->end(transaction_end::carried_out);
            all_.erase(all_.begin() + static_cast<std::ptrdiff_t>(i));
        }
        for (std::size_t i = all_.size(); i-- > 0 && all_[i].part == part;) {
            all_[i].part = part - 1;
        }
        torn_in_ = torn_in_ == part ? part - 1 : torn_in_;
    }
    /// Behind prepare(), where the words are durable. Notes it for end().
    void accept() noexcept {
        for (const entry& each : all_) {
            each.participant->accept();
        }
        note(transaction_end::carried_out);
    }
    /// For end(), where there are any; else `dropped`.
    void note(transaction_end how) noexcept { how_ = all_.empty() ? transaction_end::dropped : how; }
    [[nodiscard]] transaction_end noted() const noexcept { return how_; }
    /// Of the innermost part, if its number is this one.
    void drop(unsigned part) noexcept {
        while (!all_.empty() && all_.back().part >= part) {
            all_.back().participant->end(transaction_end::dropped);
            all_.pop_back();
        }
        if (torn_in_ >= part) {
            torn_ = nullptr;
        }
    }
    void end() noexcept {
        for (; !all_.empty(); all_.pop_back()) {
            all_.back().participant->end(how_);
        }
        how_ = transaction_end::dropped;
        torn_ = nullptr;
    }

private:
    struct entry {
        const void* key;
        unsigned part;
        std::shared_ptr<transaction_participant> participant;
    };
    static constexpr auto none = static_cast<std::size_t>(-1);

    /// The last one before `end` with this key.
    [[nodiscard]] std::size_t find_below(std::size_t end, const void* key) const noexcept {
        while (end > 0) {
            if (all_[--end].key == key) {
                return end;
            }
        }
        return none;
    }

    std::vector<entry> all_;
    transaction_end how_ = transaction_end::dropped;
    std::exception_ptr torn_;  ///< why the part `torn_in_`, and all around it, cannot be carried out
    unsigned torn_in_ = 0;     ///< it has some of the changes of a part that was dropped
};

}  // namespace holdfast::detail
