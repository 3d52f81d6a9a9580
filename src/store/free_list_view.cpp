#include "store/free_list_view.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace holdfast::store_engine {

status free_list_view::load(stored_pages& store, std::uint64_t version) {
    if (version == version_) {
        return status::ok;
    }
    std::vector<std::uint64_t> died;
    HF_STORE_TRY(free_pages_at(store, version, died));
    std::map<std::uint64_t, std::vector<std::uint64_t>> by_transaction;
    for (std::uint64_t page = died.size(); page-- > 0;) {
        if (died[page] != 0) {
            std::vector<std::uint64_t>& pages = by_transaction.try_emplace(died[page], 1, 0).first->second;
            pages.push_back(page);
            ++pages.front();
        }
    }
    records_.clear();
    for (auto& [transaction, pages] : by_transaction) {
        records_.push_back({transaction, std::move(pages)});
    }
    version_ = version;
    return status::ok;
}

status free_list_view::find(std::size_t& place, const MDB_val* key, bool range) const {
    if (key == nullptr) {
        return status::invalid_argument;
    }
    std::uint64_t wanted = 0;
    if (key->mv_size != sizeof(wanted)) {
        return status::bad_value_size;
    }
    std::memcpy(&wanted, key->mv_data, sizeof(wanted));
    const auto found = std::ranges::lower_bound(records_, wanted, {}, &record::transaction);
    if (found == records_.end() || (!range && found->transaction != wanted)) {
        return status::not_found;
    }
    place = static_cast<std::size_t>(found - records_.begin());
    return status::ok;
}

status free_list_view::get(std::size_t& place, MDB_val* key, MDB_val* data, MDB_cursor_op operation) const {
    std::size_t to = place;
    switch (operation) {
        case MDB_FIRST: to = 0; break;
        case MDB_LAST: to = entries() - 1; break;
        case MDB_NEXT:
        case MDB_NEXT_DUP:
        case MDB_NEXT_NODUP: to = place == no_place ? 0 : place + 1; break;
        case MDB_PREV:
        case MDB_PREV_DUP:
        case MDB_PREV_NODUP: to = place == no_place ? entries() - 1 : place - 1; break;
        case MDB_GET_CURRENT: HF_STORE_TRY(place == no_place ? status::invalid_argument : status::ok); break;
        case MDB_SET:
        case MDB_SET_KEY:
        case MDB_SET_RANGE: HF_STORE_TRY(find(to, key, operation == MDB_SET_RANGE)); break;
        default: return status::incompatible;
    }
    if (to >= entries()) {
        return status::not_found;  // also before the first
    }
    place = to;
    const record& found = records_[place];
    if (key != nullptr && operation != MDB_SET) {
        *key = {sizeof(found.transaction), const_cast<std::uint64_t*>(&found.transaction)};
    }
    if (data != nullptr) {
        *data = {found.pages.size() * sizeof(std::uint64_t), const_cast<std::uint64_t*>(found.pages.data())};
    }
    return status::ok;
}

}  // namespace holdfast::store_engine
