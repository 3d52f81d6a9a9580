#include <optional>
#include <stdexcept>

#include <holdfast/manager.hpp>

#include "fragmentation/space_backend.hpp"

namespace bench {

namespace {

using word = holdfast::ptr<std::byte>;
constexpr const char* words_name = "objects";

class holdfast_space : public space_backend {
public:
    holdfast_space(const std::string& name, const space_request& request)
        : path_((request.directory / "heap.hf").string()), commits_(name == "holdfast commit") {
        using domain_choice = holdfast::open_options::domain_choice;
        if (!request.limited) {
            options_.maximum_size = request.capacity;
        }
        options_.commit_on_close = false;
        {
            holdfast::manager heap(holdfast::create_only, path_, options_);
            heap.construct<word>(words_name)[request.objects]();
            heap.close(true);
        }
        if (!commits_) {
            options_.durability = holdfast::durability::atomic;
            options_.domain = name == "holdfast atomic emulated" ? domain_choice::emulated : domain_choice::page_cache;
            options_.accept_process_crash_only = options_.domain == domain_choice::page_cache;
        }
        open();
    }
    bool allocate(std::size_t number, std::size_t size) override {
        try {
            heap_->allocate_to(words_[number], size);
            return true;
        } catch (const std::bad_alloc&) {
            return false;
        }
    }
    void release(std::size_t number) override { heap_->free_from(words_[number]); }
    std::byte* block(std::size_t number) override { return words_[number].get(); }
    bool settle() override {
        return !commits_ || succeeds([this] { heap_->commit(); });
    }
    void check() override {
        const auto problems = heap_->check(false);
        if (!problems.empty()) {
            throw std::logic_error("the heap fails its own check: " + problems.front());
        }
    }
    bool reopen() override {
        // What cannot be committed now would be lost by an open.
        if (!settle() || !succeeds([this] { heap_->close(commits_); })) {
            return false;
        }
        open();
        return true;
    }

private:
    /// False where there was no space; anything else is thrown.
    template <class Action>
    static bool succeeds(Action action) {
        try {
            action();
            return true;
        } catch (const holdfast::error& failure) {
            if (failure.code() != holdfast::errc::no_space) {
                throw;
            }
            return false;
        }
    }
    void open() {
        heap_.emplace(holdfast::open_only, path_, options_);
        words_ = heap_->find<word>(words_name).first;
    }

    std::string path_;
    bool commits_;
    holdfast::open_options options_;
    std::optional<holdfast::manager> heap_;
    word* words_ = nullptr;
};

}  // namespace

std::unique_ptr<space_backend> open_holdfast_space(const std::string& name, const space_request& request) {
    return std::make_unique<holdfast_space>(name, request);
}

const std::vector<std::string>& space_backend_names() {
    static const std::vector<std::string> names{"holdfast atomic emulated", "holdfast atomic page-cache",
                                                "holdfast commit", "libpmemobj"};
    return names;
}

std::unique_ptr<space_backend> open_space_backend(const std::string& name, const space_request& request) {
    return name == "libpmemobj" ? open_libpmemobj_space(request) : open_holdfast_space(name, request);
}

}  // namespace bench
