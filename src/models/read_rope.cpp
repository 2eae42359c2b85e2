// How positions are rotated: a document's own fields, rope_scaling, rope_parameters, and parts of the latter for layers
// with and without compression.
#include <vector>

#include "models/config_reader.hpp"

namespace skim {
namespace {

/// What a section says of the kind of rotation.
enum class Kind { unsaid, plain, yarn };

struct Section {
  JsonObject object;
  std::string type_key;  ///< Empty: it does not name its type.
  Kind kind = Kind::unsaid;
  bool for_window = true;      ///< Holds rope_theta.
  bool for_compressed = true;  ///< Holds YaRN, and compress_rope_theta if it is not for the window too.

  /// The key that tells its kind, and what it says.
  std::string telling() const {
    const std::string key = type_key.empty() ? "factor" : type_key;
    return fmt::format("{}, {}", object.path(key), object.found(key));
  }
};

class RopeReader {
 public:
  RopeReader(ConfigReader& reader, const RopeFields& fields, double rotated_part)
      : reader_(reader), fields_(fields), rotated_part_(rotated_part) {}

  void read() {
    for (const char* name : {"rope_scaling", "rope_parameters"}) open(name);
    reader_.expect("partial_rotary_factor", {"1", fmt::format("{}", rotated_part_)});
    reader_.read(fields_.theta, places(fields_.theta, "rope_theta", &Section::for_window), absent(fields_.theta));
    read_compress_theta();
    read_yarn();
    for (const Section& section : sections_) finish(section);
  }

 private:
  void open(const char* name) {
    const JsonObject& text = reader_.text();
    reader_.use(text, name);
    if (!text.has(name)) return;
    const JsonObject section = text.object(name);
    if (section.contains("main") || section.contains("compress")) {
      open_parts(section);
    } else if (!section.fields().empty()) {
      sections_.push_back({section, {}});
      name_kind(sections_.back());
    }
  }

  /// Parameters of layers without and with compressed rows, as transformers writes them.
  void open_parts(const JsonObject& section) {
    if (fields_.compress_theta == nullptr) section.fail(section.has("main") ? "main" : "compress", "no such part");
    for (const char* part : {"main", "compress"}) {
      reader_.use(section, part);
      if (!section.has(part)) continue;
      const bool is_main = std::string_view(part) == "main";
      sections_.push_back({section.object(part), {}, Kind::unsaid, is_main, !is_main});
      name_kind(sections_.back());
    }
    reader_.refuse_rest(section);
  }

  void name_kind(Section& section) {
    for (const char* key : {"rope_type", "type"}) {
      reader_.use(section.object, key);
      if (!section.object.has(key)) continue;
      const Kind kind = kind_of(section, key);
      if (section.kind != Kind::unsaid && section.kind != kind) {
        section.object.fail(key, "agreement with " + section.telling());
      }
      section.kind = kind;
      section.type_key = key;
    }
    if (section.kind == Kind::unsaid && section.object.has("factor")) {
      section.kind = Kind::yarn;
      reader_.assume(section.object.path("rope_type") + ": yarn");
    }
    if (section.kind == Kind::yarn && !section.for_compressed) {
      section.object.fail(section.type_key.empty() ? "factor" : section.type_key,
                          "\"default\": layers without compression have no YaRN");
    }
  }

  static Kind kind_of(const Section& section, const char* key) {
    const std::string type = section.object.text(key);
    if (type == "default") return Kind::plain;
    if (type == "yarn" || type == "deepseek_yarn") return Kind::yarn;
    section.object.fail(key, "\"yarn\", \"deepseek_yarn\" or \"default\"");
  }

  Absent absent(const Field& field) const { return field.absent(reader_.spelling()); }

  /// The document's own field, and `key` of the sections for which `wanted` holds.
  std::vector<Candidate> places(const Field& field, const char* key, bool Section::*wanted) const {
    std::vector<Candidate> list = {{reader_.text(), std::string(field.inference)}};
    for (const Section& section : sections_) {
      if (section.*wanted) list.push_back({section.object, key});
    }
    return list;
  }

  /// The same for a parameter of YaRN; a section that must have it comes first, to be named if it does not.
  std::vector<Candidate> yarn_places(const Field& field) const {
    std::vector<Candidate> list;
    for (const Section& section : sections_) {
      if (section.kind == Kind::yarn) list.push_back({section.object, std::string(field.released)});
    }
    list.push_back({reader_.text(), std::string(field.inference)});
    return list;
  }

  void read_compress_theta() {
    if (fields_.compress_theta == nullptr) return;
    std::vector<Candidate> list = {{reader_.text(), std::string(fields_.compress_theta->inference)}};
    for (const Section& section : sections_) {
      if (!section.for_window) list.push_back({section.object, "rope_theta"});
    }
    reader_.read(*fields_.compress_theta, list, absent(*fields_.compress_theta));
  }

  const Section* find(Kind kind) const {
    for (const Section& section : sections_) {
      if (section.for_compressed && section.kind == kind) return &section;
    }
    return nullptr;
  }

  void read_yarn() {
    const Section *yarn = find(Kind::yarn), *plain = find(Kind::plain);
    if (yarn != nullptr && plain != nullptr) {
      plain->object.fail(plain->type_key, "agreement with " + yarn->telling());
    }
    Field& original = fields_.original_seq_len;
    auto* length = std::get<std::int64_t*>(original.value);
    if (yarn != nullptr) {
      reader_.read(original, yarn_places(original), Absent::refused);
      if (*length == 0) yarn->object.fail(original.released, "an integer of at least 1");
    } else {
      const bool off = plain != nullptr || reader_.spelling() == Spelling::released;
      if (off) *length = 0;
      reader_.read(original, yarn_places(original), off ? Absent::plain : absent(original));
    }
    if (plain != nullptr && *length > 0) {
      plain->object.fail(plain->type_key, fmt::format("agreement with original_seq_len, {}", *length));
    }
    read_parameters(yarn != nullptr, *length > 0);
  }

  void read_parameters(bool in_section, bool is_on) {
    Field* const list[] = {&fields_.factor, &fields_.beta_fast, &fields_.beta_slow, fields_.mscale};
    for (Field* field : list) {
      if (field == nullptr) continue;
      // Nobody has a usual factor; 32 and 1 are the usual betas.
      Absent missing = field == &fields_.factor ? Absent::refused : Absent::assumed;
      if (!in_section) missing = absent(*field);
      if (field == fields_.mscale && yarn_says("mscale_all_dim")) missing = Absent::plain;
      reader_.read(*field, yarn_places(*field), is_on ? missing : Absent::plain);
    }
    for (const Section& section : sections_) check_mscale(section);
  }

  bool yarn_says(const char* key) const {
    for (const Section& section : sections_) {
      if (section.kind == Kind::yarn && section.object.has(key)) return true;
    }
    return false;
  }

  /// cos and sin get mscale over mscale_all_dim, the softmax scale mscale_all_dim: only equal ones leave the rotation
  /// its length.
  void check_mscale(const Section& section) {
    if (section.kind != Kind::yarn) return;
    const JsonObject& object = section.object;
    for (const char* key : {"mscale", "mscale_all_dim"}) reader_.use(object, key);
    reader_.expect(object, "attention_factor", {"1"});
    const bool all = object.has("mscale_all_dim"), one = object.has("mscale");
    if (fields_.mscale == nullptr) {
      const bool equal = all && one && object.same("mscale", object, "mscale_all_dim");
      for (const char* key : {"mscale", "mscale_all_dim"}) {
        if (!equal && !object.says_nothing(key, true))
          object.fail(key, "0, 1 or nothing: this model does not scale by it");
      }
      return;
    }
    const double mscale = *std::get<double*>(fields_.mscale->value);
    if (all && object.number("mscale_all_dim") != mscale) {
      object.fail("mscale_all_dim", fmt::format("mscale, {:g}: this model does not scale its rotation", mscale));
    }
    if (!all && one) reader_.assume(fmt::format("{}: {:g}, as mscale", object.path("mscale_all_dim"), mscale));
  }

  void finish(const Section& section) {
    const JsonObject& object = section.object;
    reader_.expect(object, "partial_rotary_factor", {"1", fmt::format("{}", rotated_part_)});
    reader_.expect(object, "truncate", {"true"});
    if (section.kind != Kind::yarn) {
      reader_.expect(object, "beta_fast", {"32", "0"});
      reader_.expect(object, "beta_slow", {"1", "0"});
      for (const char* key : {"factor", "mscale", "mscale_all_dim", "attention_factor"}) {
        reader_.expect(object, key, {"1", "0"});
      }
    }
    reader_.refuse_rest(object);
  }

  ConfigReader& reader_;
  const RopeFields& fields_;
  double rotated_part_;
  std::vector<Section> sections_;
};

}  // namespace

void read_rope(ConfigReader& reader, const RopeFields& fields, double rotated_part) {
  RopeReader(reader, fields, rotated_part).read();
}

}  // namespace skim
