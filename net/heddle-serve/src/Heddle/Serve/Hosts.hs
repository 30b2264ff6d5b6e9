{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Hosts
-- Description : Which site a request is for
-- Stability   : internal, exempt from the version policy
--
-- A table from names to sites. One pass over the host, from its end to its beginning, gives the hashes of all its suffixes
-- and of the whole: an exact name goes before wildcards, and the longest wildcard before shorter ones. Case, port and a
-- trailing dot do not count.
--
-- Cost: a multiplication for each byte of the host, a look-up for each of its dots if there are wildcards, and one; no allocation.
-- Owner: immutable.
module Heddle.Serve.Hosts
  ( Hosts,
    newHosts,
    findHost,
    hostOf,
  )
where

import Data.Bits (unsafeShiftR, xor, (.&.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Foldable (for_)
import Data.Word (Word64, Word8)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peekByteOff)
import Heddle.Http (Request)
import Heddle.Http.Borrowed (withHost)
import Heddle.Prim.Atomic (Table, newTable, readEntry, tableSize, writeEntry)
import Heddle.Serve.FileCache (sameBytes)
import Heddle.Serve.HostName

-- | What stands for names.
data Hosts a = Hosts
  { hostsExact :: !(Table (Bucket a)),
    hostsBelow :: !(Table (Bucket a)),
    -- | Whether there are wildcards.
    hostsWild :: !Bool
  }

data Bucket a = Empty | Bucket !ByteString a !(Bucket a)

-- | A table; of two equal names the first counts.
newHosts :: [(HostPattern, a)] -> IO (Hosts a)
newHosts given = do
  exact <- fill [(name, a) | (ExactHost name, a) <- given]
  below <- fill [(name, a) | (HostsBelow name, a) <- given]
  pure (Hosts exact below (not (null [() | (HostsBelow _, _) <- given])))
  where
    fill names = do
      table <- newTable (sizeFor (length names)) Empty
      for_ (reverse names) $ \(name, a) -> do
        place <- placeOf table <$> hashOf name
        readEntry table place >>= writeEntry table place . Bucket name a
      pure table
    sizeFor n = until (>= 2 * n) (* 2) (1 :: Int)
    hashOf name = unsafeUseAsCStringLen name $ \(p, n) -> go (castPtr p) (n - 1) start
    go :: Ptr Word8 -> Int -> Word64 -> IO Word64
    go p i h
      | i < 0 = pure h
      | otherwise = peekByteOff p i >>= go p (i - 1) . step h

-- FNV-1a. Only names of sites are entered, so the hash needs no secret.
start :: Word64
start = 0xCBF29CE484222325

step :: Word64 -> Word8 -> Word64
step h byte = (h `xor` fromIntegral (lower byte)) * 0x100000001B3
{-# INLINE step #-}

lower :: Word8 -> Word8
lower byte = if byte - 65 < 26 then byte + 32 else byte
{-# INLINE lower #-}

placeOf :: Table (Bucket a) -> Word64 -> Int
placeOf table h = fromIntegral (h `xor` (h `unsafeShiftR` 32)) .&. (tableSize table - 1)
{-# INLINE placeOf #-}

-- | Look up what the host of a request stands for.
--
-- [Blocks]: never.
hostOf :: Hosts a -> Request -> IO (Maybe a)
hostOf hosts request = withHost request (findIn hosts)

-- | The same for an authority, such as @www.example.org:8080@.
findHost :: Hosts a -> ByteString -> IO (Maybe a)
findHost hosts authority = unsafeUseAsCStringLen authority $ \(p, n) -> findIn hosts (castPtr p) n

findIn :: Hosts a -> Ptr Word8 -> Int -> IO (Maybe a)
findIn hosts p given = do
  n <- nameLength p given
  go n (n - 1) start Nothing
  where
    go n i h best
      | i < 0 = do
        found <- probe (hostsExact hosts) h 0 n
        pure (case found of Nothing -> best; exact -> exact)
      | otherwise = do
        byte <- peekByteOff p i :: IO Word8
        -- What follows a dot that is not the first byte.
        next <- if byte == 46 && hostsWild hosts && i > 0 then probe (hostsBelow hosts) h (i + 1) n else pure Nothing
        go n (i - 1) (step h byte) (case next of Nothing -> best; longer -> longer)
    probe table h from n = readEntry table (placeOf table h) >>= among (n - from) (p `plusPtr` from)
    among size at = \case
      Empty -> pure Nothing
      Bucket name a others
        | B.length name == size -> do
          same <- unsafeUseAsCStringLen name (\(q, _) -> alike at (castPtr q) size)
          if same then pure (Just a) else among size at others
        | otherwise -> among size at others

-- Whether bytes, in lower case, are those of a name.
alike :: Ptr Word8 -> Ptr Word8 -> Int -> IO Bool
alike p q n = do
  same <- sameBytes p q n
  if same then pure True else go 0
  where
    go :: Int -> IO Bool
    go i
      | i == n = pure True
      | otherwise = do
        a <- peekByteOff p i
        b <- peekByteOff q i
        if lower a == b then go (i + 1) else pure False

-- How much of an authority is the host, without a trailing dot.
nameLength :: Ptr Word8 -> Int -> IO Int
nameLength p n = do
  first <- if n > 0 then peekByteOff p 0 else pure (0 :: Word8)
  if first == 91
    then (\end -> min n (end + 1)) <$> upTo 93 0
    else do
      end <- upTo 58 0
      final <- if end > 1 then peekByteOff p (end - 1) else pure (0 :: Word8)
      pure (if final == 46 then end - 1 else end)
  where
    upTo :: Word8 -> Int -> IO Int
    upTo mark i
      | i >= n = pure n
      | otherwise = do
        byte <- peekByteOff p i
        if byte == mark then pure i else upTo mark (i + 1)
