// holders: counting, and following what other processes change.
#include "holders.hpp"

#include <utility>

namespace holdfast::python {

using values::dict;
using values::sequence;

std::shared_ptr<hold> holders::add(const void* object, kind what, std::shared_ptr<const found_at> place) {
    const std::lock_guard guard(mutex_);
    std::shared_ptr<hold>& found = all_[object];
    if (found == nullptr) {
        found = std::make_shared<hold>();
        found->object = object;
        found->what = what;
        found->seen = changes_;
    }
    found->place = std::move(place);  // the newest: this process may have moved it in its list
    ++found->holders;
    arrays_ += what == kind::array ? 1 : 0;
    return found;
}

bool holders::let_go(const std::shared_ptr<hold>& of, const std::atomic<bool>& closed) noexcept {
    const std::lock_guard guard(mutex_);
    --of->holders;
    if (of->holders == 0) {
        if (!of->is_gone) {
            all_.erase(of->object);
        }
        was_let_go_ = true;
    }
    if (of->what != kind::array) {
        return false;
    }
    --arrays_;
    return arrays_ == 0 && closed;
}

bool holders::has(const void* object) const {
    const std::lock_guard guard(mutex_);
    return all_.contains(object);
}

std::uint64_t holders::arrays() const {
    const std::lock_guard guard(mutex_);
    return arrays_;
}

std::vector<const void*> holders::held_arrays() const {
    const std::lock_guard guard(mutex_);
    std::vector<const void*> found;
    for (const auto& [object, held] : all_) {
        if (held->what == kind::array) {
            found.push_back(object);
        }
    }
    return found;
}

void holders::forget(const void* object) {
    const std::lock_guard guard(mutex_);
    if (const auto found = all_.find(object); found != all_.end()) {
        found->second->is_gone = true;
        all_.erase(found);
    }
}

void holders::follow(const contents& in, const void* entries) {
    const std::lock_guard guard(mutex_);
    ++changes_;
    std::erase_if(all_, [&](const auto& each) { return !is_there(*each.second, in, entries); });
}

/// What it is found in may be held by nobody but it, and is looked at first.
bool holders::is_there(hold& of, const contents& in, const void* entries) const {
    if (of.seen != changes_ && !of.is_gone) {
        try {
            of.is_gone = !is_at_place(of, in, entries);
        } catch (const error&) {  // damaged; those who read it learn of it
            of.is_gone = true;
        }
        of.seen = changes_;
    }
    return !of.is_gone;
}

bool holders::is_at_place(const hold& of, const contents& in, const void* entries) const {
    if (of.place == nullptr || of.place->in == nullptr) {
        return of.place != nullptr && of.object == entries;
    }
    hold& around = *of.place->in;
    if (!is_there(around, in, entries)) {
        return false;
    }
    value at;
    if (around.what == kind::dict) {
        const auto found = in.find(*static_cast<const dict*>(around.object), of.place->key.value());
        if (!found) {
            return false;
        }
        at = *found;
    } else {
        const auto& list = *static_cast<const sequence*>(around.object);
        if (of.place->index >= in.space.look(list).size) {
            return false;
        }
        at = in.at(list, of.place->index);
    }
    for (const std::uint64_t part : of.place->parts) {
        if (!sequence::holds(at.what)) {
            return false;
        }
        const auto& tuple = *in.space.object_of<sequence>(at);
        if (part >= in.space.look(tuple).size) {
            return false;
        }
        at = in.at(tuple, part);
    }
    return at.what == of.what && at.object.get() == of.object;
}

bool holders::take_let_go() {
    const std::lock_guard guard(mutex_);
    return std::exchange(was_let_go_, false);
}

void holders::note_let_go() {
    const std::lock_guard guard(mutex_);
    was_let_go_ = true;
}

}  // namespace holdfast::python
