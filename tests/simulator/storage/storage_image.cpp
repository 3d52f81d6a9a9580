#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "base/assert.hpp"
#include "simulator/storage/simulated_storage.hpp"

namespace holdfast::simulator {

using base::result;

namespace {

std::string path_below(const std::string& directory, const std::string& name) { return directory + "/" + name; }

class loader {
public:
    explicit loader(storage_image& into) : into_(into) {}

    result<void> load(const std::string& source, const std::string& name) {
        add(name, true, std::make_shared<sparse_content>());
        HF_TRY_ASSIGN(const auto entries, persist::posix_storage().list(source));
        for (const auto& entry : entries) {
            const std::string path = path_below(source, entry);
            struct stat status {};
            const bool there = ::lstat(path.c_str(), &status) == 0;
            if (there && S_ISLNK(status.st_mode)) {
                HF_TRY_ASSIGN(into_.nodes.emplace_back().link, persist::posix_storage().link_target(path));
                names[path_below(name, entry)] = static_cast<storage_image::node_id>(into_.nodes.size() - 1);
                into_.nodes.back().content = std::make_shared<sparse_content>();
            } else if (there && S_ISDIR(status.st_mode)) {
                HF_TRY(load(path, path_below(name, entry)));
            } else {
                HF_TRY_ASSIGN(auto content, read(path));
                add(path_below(name, entry), false, std::move(content));
            }
        }
        return {};
    }

    void add(const std::string& path, bool directory, std::shared_ptr<const sparse_content> content) {
        names[path] = static_cast<storage_image::node_id>(into_.nodes.size());
        into_.nodes.push_back({directory, std::move(content), {}});
    }

    std::map<std::string, storage_image::node_id> names;

private:
    static result<std::shared_ptr<sparse_content>> read(const std::string& path) {
        HF_TRY_ASSIGN(auto file, persist::posix_storage().open(path, persist::access_mode::read_only));
        HF_TRY_ASSIGN(const std::uint64_t size, file->size());
        auto content = std::make_shared<sparse_content>();
        content->resize(size);
        std::vector<std::byte> page(sparse_content::page_size);
        const std::vector<std::byte> zeros(page.size());
        for (std::uint64_t at = 0; at < size;) {
            const off_t data = ::lseek(file->native_handle(), static_cast<off_t>(at), SEEK_DATA);
            if (data < 0) {
                break;  // a hole up to the end
            }
            at = static_cast<std::uint64_t>(data) / page.size() * page.size();
            const auto part = std::span{page}.first(std::min<std::uint64_t>(page.size(), size - at));
            HF_TRY(file->read_at(at, part));
            if (!std::equal(part.begin(), part.end(), zeros.begin())) {
                content->write(at, part);
            }
            at += part.size();
        }
        return content;
    }

    storage_image& into_;
};

}  // namespace

std::string normal_path(const std::string& path) {
    std::string out;
    for (const char c : path) {
        if (c != '/' || (!out.empty() && out.back() != '/')) {
            out.push_back(c);
        }
    }
    if (!out.empty() && out.back() == '/') {
        out.pop_back();
    }
    return out;
}

std::uint64_t storage_image::hash() const {
    std::uint64_t sum = 0;
    for (const auto& [path, id] : *names) {
        const node& one = nodes[id];
        sum = mix(sum, std::hash<std::string>{}(path));
        sum = mix(sum, one.directory ? 1 : mix(one.content->hash(), std::hash<std::string>{}(one.link)));
    }
    return sum;
}

std::vector<std::byte> storage_image::bytes_of(const std::string& path) const {
    const auto found = names->find(normal_path(path));
    HF_ASSERT(found != names->end());
    const sparse_content& content = *nodes[found->second].content;
    std::vector<std::byte> bytes(content.size());
    content.read(0, bytes);
    return bytes;
}

result<void> storage_image::materialise(const std::string& directory, const std::string& target) const {
    auto& real = persist::posix_storage();
    const std::string below = normal_path(directory) + "/";
    for (auto at = names->lower_bound(below); at != names->end() && at->first.starts_with(below); ++at) {
        const node& one = nodes[at->second];
        const std::string path = target + "/" + at->first.substr(below.size());
        if (one.directory) {
            HF_TRY(real.make_directory(path, "simulator.materialise"));
            continue;
        }
        if (!one.link.empty()) {
            const std::string leads_to = normal_path(one.link);
            const bool inside = leads_to.starts_with(below);
            HF_TRY(real.make_link(path, inside ? target + "/" + leads_to.substr(below.size()) : one.link,
                                  "simulator.materialise"));
            continue;
        }
        HF_TRY_ASSIGN(auto file, real.create(path, "simulator.materialise"));
        HF_TRY(file->resize(one.content->size(), "simulator.materialise"));
        result<void> written;
        one.content->for_each_page([&](std::uint64_t offset, std::span<const std::byte> bytes) {
            if (written) {
                written = file->write_at(offset, bytes, "simulator.materialise");
            }
        });
        HF_TRY(std::move(written));
    }
    return {};
}

result<storage_image> storage_image::load(const std::string& source, const std::string& directory) {
    storage_image out;
    loader work{out};
    HF_TRY(work.load(source, normal_path(directory)));
    std::string parent = normal_path(directory);
    for (auto slash = parent.rfind('/'); slash != std::string::npos; slash = parent.rfind('/')) {
        parent.resize(slash);
        work.add(parent, true, std::make_shared<sparse_content>());
    }
    out.names = std::make_shared<const std::map<std::string, node_id>>(std::move(work.names));
    return out;
}

}  // namespace holdfast::simulator
