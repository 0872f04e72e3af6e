#!/bin/bash
# Makes of a folder of GPT-NeoX what older versions of transformers wrote: buffers lie beside the weights, in a shard of
# their own, and of the types that they had.
#   older_buffers.sh FOLDER LAYERS
set -euo pipefail
cd "$1"
header=$(head -c $((8 + $(od -An -tu8 -N8 model.safetensors))) model.safetensors | tail -c +9)
names=$(grep -o '"[^"]*":{"dtype"' <<<"$header" | cut -d'"' -f2)
mv model.safetensors model-00001-of-00002.safetensors
buffers='' files=''
for name in $names; do
  files+="\"$name\": \"model-00001-of-00002.safetensors\", "
done
for ((layer = 0, at = 0; layer < $2; layer++, at += 14)); do
  prefix=gpt_neox.layers.$layer.attention
  buffers+="\"$prefix.bias\":{\"dtype\":\"U8\",\"shape\":[1,1,2,2],\"data_offsets\":[$at,$((at + 4))]},"
  buffers+="\"$prefix.masked_bias\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[$((at + 4)),$((at + 6))]},"
  buffers+="\"$prefix.rotary_emb.inv_freq\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[$((at + 6)),$((at + 14))]},"
  for name in bias masked_bias rotary_emb.inv_freq; do
    files+="\"$prefix.$name\": \"model-00002-of-00002.safetensors\", "
  done
done
buffers="{${buffers%,}}"
{
  printf '%b' "$(printf '\\x%02x\\x%02x' $((${#buffers} & 255)) $((${#buffers} >> 8)))"
  head -c 6 /dev/zero
  printf '%s' "$buffers"
  head -c $((14 * $2)) /dev/zero
} >model-00002-of-00002.safetensors
printf '{"weight_map": {%s}}\n' "${files%, }" >model.safetensors.index.json
