// What counts together with a transaction. For its thread alone.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <holdfast/detail/heap_participants.hpp>

namespace holdfast::detail {

class transaction_participants {
public:
    [[nodiscard]] bool empty() const noexcept { return all_.empty(); }
    [[nodiscard]] std::shared_ptr<transaction_participant> find(const void* key) const {
        for (const auto& [known, participant] : all_) {
            if (known == key) {
                return participant;
            }
        }
        return nullptr;
    }
    void add(const void* key, std::shared_ptr<transaction_participant> participant) {
        all_.emplace_back(key, std::move(participant));
    }
    void prepare(transaction& in) const {
        for (const auto& each : all_) {
            each.second->prepare(in);
        }
    }
    /// For end(); else `dropped`.
    void note(transaction_end how) noexcept { how_ = how; }
    void end() noexcept {
        for (const auto& each : all_) {
            each.second->end(how_);
        }
        all_.clear();
        how_ = transaction_end::dropped;
    }

private:
    std::vector<std::pair<const void*, std::shared_ptr<transaction_participant>>> all_;
    transaction_end how_ = transaction_end::dropped;
};

}  // namespace holdfast::detail
