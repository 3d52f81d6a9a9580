#include "log/log_files.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/units.hpp"

namespace holdfast::log {

namespace {

using persist::access_mode;

constexpr std::uint64_t filled_at_once = 64 * base::kibibyte;

}  // namespace

std::string log_files::path_of(std::uint64_t number) const {
    return fmt::format("{}/{}{:06}", place_.directory, place_.prefix, number);
}

base::result<std::vector<std::uint64_t>> log_files::numbers() const {
    HF_TRY_ASSIGN(const auto names, storage_.list(place_.directory));
    std::vector<std::uint64_t> found;
    for (const std::string& name : names) {
        if (!name.starts_with(place_.prefix)) {
            continue;
        }
        std::uint64_t number = 0;
        const char* const end = name.data() + name.size();
        const auto [last, error] = std::from_chars(name.data() + place_.prefix.size(), end, number);
        // Another spelling of the number is another file.
        if (error == std::errc{} && last == end && path_of(number) == place_.directory + "/" + name) {
            found.push_back(number);
        }
    }
    std::ranges::sort(found);
    return found;
}

void log_files::add_spare(std::uint64_t number) { spares_.push_back(number); }

/// Writes zeros behind what is there.
base::result<void> log_files::fill(persist::file& file, file_content content) const {
    HF_TRY_ASSIGN(const std::uint64_t at, file.size());
    HF_TRY(file.allocate(0, place_.file_size, "log.create.allocate"));  // here a full disk shows, not at the sync
    return content == file_content::written ? write_zeros(file, at) : base::result<void>();
}

base::result<void> log_files::write_zeros(persist::file& file, std::uint64_t from) const {
    const std::vector<std::byte> zeros(filled_at_once);
    for (std::uint64_t at = from; at < place_.file_size; at += zeros.size()) {
        const std::uint64_t length = std::min<std::uint64_t>(zeros.size(), place_.file_size - at);
        HF_TRY(file.write_at(at, std::span(zeros).first(length), "log.create.write"));
    }
    return file.sync("log.create.sync");
}

base::result<std::unique_ptr<persist::file>> log_files::create(std::uint64_t number, file_content content) {
    HF_TRY_ASSIGN(auto file, storage_.create(path_of(number), "log.create"));
    if (auto filled = fill(*file, content); !filled) {
        file.reset();
        static_cast<void>(storage_.remove(path_of(number), "log.create.remove"));
        return std::move(filled).error();
    }
    return file;
}

base::result<void> log_files::reserve(std::size_t spares, std::uint64_t next, file_content content) {
    if (spares_.size() >= spares) {
        return {};
    }
    for (; spares_.size() < spares; ++next) {
        if (std::ranges::find(spares_, next) == spares_.end()) {
            // The first is soon written, the others perhaps never.
            const bool is_written = spares_.empty() && content != file_content::later;
            HF_TRY_ASSIGN(const auto file, create(next, is_written ? file_content::written : content));
            add_spare(next);
            if (content == file_content::later) {
                unwritten_.push_back(next);
            }
        }
    }
    if (content == file_content::later) {
        return {};  // make() syncs the name of the spare that it takes
    }
    return storage_.sync_directory(place_.directory, "log.reserve.directory");
}

base::result<std::unique_ptr<persist::file>> log_files::make(std::uint64_t number, file_content content) {
    if (spares_.empty()) {
        return create(number, content);
    }
    auto spare = std::ranges::find(spares_, number);
    spare = spare == spares_.end() ? spares_.begin() : spare;  // the oldest goes first
    if (*spare != number) {
        HF_TRY(storage_.rename(path_of(*spare), path_of(number), "log.recycle"));
        std::ranges::replace(unwritten_, *spare, number);
        *spare = number;
    }
    HF_TRY_ASSIGN(auto file, storage_.open(path_of(number), access_mode::read_write));
    HF_TRY_ASSIGN(const std::uint64_t size, file->size());
    if (size != place_.file_size) {  // an interrupted creation
        HF_TRY(fill(*file, content));
    }
    if (const auto unwritten = std::ranges::find(unwritten_, number); unwritten != unwritten_.end()) {
        if (content == file_content::written) {
            HF_TRY(write_zeros(*file, 0));
        }
        unwritten_.erase(unwritten);
    }
    HF_TRY(storage_.sync_directory(place_.directory, "log.recycle.directory"));
    spares_.erase(spare);
    return file;
}

void log_files::remove_spares() {
    while (spares_.size() > most_spares_) {
        if (!storage_.remove(path_of(spares_.front()), "log.spare.remove")) {
            return;
        }
        std::erase(unwritten_, spares_.front());
        spares_.erase(spares_.begin());
    }
}

}  // namespace holdfast::log
