-- | Hashes of N strings of one length, which begin at every eighth byte of 4 KiB in turn, added up.
--
--   bench-bytes-hash WAY N
--
-- WAY is one of the names below and the length: @sip13-heddle-45@. Ways of SipHash-1-3 give one answer, as do
-- those of SipHash-2-4.
module Main
  ( main,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Unsafe qualified as ByteString (unsafeDrop, unsafeTake)
import Data.Hashable (hash)
import Fnv1 (fnv1)
import Heddle.Bytes.Hash
import Heddle.Bytes.Hash.Plain
import Heddle.Measure.Contender (contender, contenderMain, oneNumber)

main :: IO ()
main =
  contenderMain (oneNumber "N") . map (uncurry contender) $
    [ (name <> "-" <> show len, way (text len) len)
      | (name, way) <- ways,
        len <- [5, 8, 16, 45, 64, 128, 512, 4096]
    ]
  where
    text len = ByteString.pack [fromIntegral (i * 167 + (i `quot` 256) * 13) | i <- [0 .. len + spread - 1]]

ways :: [(String, ByteString -> Int -> Int -> IO Int)]
ways =
  [ ("sip13-heddle", over (fromIntegral . sipHash13 key)),
    ("sip13-plain", over (fromIntegral . plainSipHash13 key)),
    ("sip24-heddle", over (fromIntegral . sipHash24 key)),
    ("sip24-plain", over (fromIntegral . plainSipHash24 key)),
    ("fnv1", over fnv1),
    ("hashable", over hash)
  ]

-- | The reference's key.
key :: HashKey
key = HashKey 0x0706050403020100 0x0f0e0d0c0b0a0908

spread :: Int
spread = 4096

-- A function of three arguments is what is inlined below, with the hash as part of its loop.
{- HLINT ignore over "Redundant lambda" -}
over :: (ByteString -> Int) -> ByteString -> Int -> Int -> IO Int
over f = \text len n ->
  let go :: Int -> Int -> Int
      go !i !total
        | i >= n = total
        | otherwise = go (i + 1) (total + f (piece (i * 8 `rem` spread)))
      piece from = ByteString.unsafeTake len (ByteString.unsafeDrop from text)
   in pure (go 0 0)
{-# INLINE over #-}
