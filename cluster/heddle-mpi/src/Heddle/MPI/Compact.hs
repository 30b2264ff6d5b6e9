{-# LANGUAGE DeriveAnyClass #-}
{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE TypeApplications #-}

-- |
-- Module      : Heddle.MPI.Compact
-- Description : Large structures sent as compact regions
-- Stability   : experimental
--
-- A 'Region' holds a fully evaluated value in a compact region of the heap. It is sent without
-- serialisation, whatever its type, and needs no instance for the types inside. 'regionWithSharing'
-- preserves sharing. The receiver copies the region once and adjusts its pointers.
--
-- A region contains addresses of code, so sender and receiver must run the same executable with its
-- code at the same addresses: linked statically and not as a position-independent executable, which
-- is GHC's default. The receiver checks that before it uses the bytes. It cannot check that the
-- bytes are those that were sent.
--
-- Functions, mutable objects, and pinned memory (and so byte strings) cannot be in a region.
--
-- Cost: 'region' copies the value; sending adds nothing; receiving copies the region and makes a
-- pass over the pointers, in a fifth of the time of cereal. A region has at least three times the
-- size of the message of "Heddle.MPI.Message", which is therefore faster on a slow network.
-- Owner: a region lives as long as any part of its value is reachable.
module Heddle.MPI.Compact
  ( Region,
    region,
    regionWithSharing,
    regionValue,
    regionBytes,
  )
where

import Control.Monad (unless, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Internal qualified as Bytes (fromForeignPtr)
import Data.ByteString.Unsafe qualified as Bytes (unsafeUseAsCStringLen)
import Data.Proxy (Proxy (..))
import Data.Typeable (Typeable, typeRep, typeRepFingerprint)
import Data.Word (Word64)
import Foreign.Concurrent qualified as Concurrent
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (IntPtr (..), Ptr, castPtr, intPtrToPtr, ptrToIntPtr)
import GHC.Compact (Compact, compact, compactSize, compactWithSharing, getCompact)
import GHC.Compact.Serialized
import GHC.Fingerprint (Fingerprint (..))
import GHC.Generics (Generic)
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Message
import Heddle.MPI.Internal.Message.Codec (checkedCodec)
import Heddle.MPI.Internal.ProgramFingerprint
import Heddle.Prim.Atomic (modifyRef, newRef)
import Heddle.Prim.Exception (bug)
import Heddle.Prim.Unsafe (unsafePure)

-- | A value in a region of its own.
newtype Region a = Region (Compact (Box a))

-- Puts the root in the region, where a constructor without fields would not be. The second
-- constructor is never used: it keeps GHC from unboxing the first one and allocating another
-- outside the region.
data Box a = Box a | NoBox

-- | Evaluate a value fully, and copy it into a region. A shared part is copied once for each path
-- to it; see 'regionWithSharing'.
--
-- [Cost]: a copy, and some bytes for each constructor.
-- [Blocks]: never.
-- [Throws]: what evaluating the value throws; 'Control.Exception.CompactionFailed' for what cannot be
-- in a region.
region :: a -> IO (Region a)
region a = Region <$> compact (Box a)

-- | 'region', for values with sharing, or with cycles.
--
-- [Cost]: about ten times the cost of 'region'.
-- [Throws]: as 'region'.
regionWithSharing :: a -> IO (Region a)
regionWithSharing a = Region <$> compactWithSharing (Box a)

-- | The value, in place.
--
-- [Cost]: O(1).
regionValue :: Region a -> a
regionValue (Region c) = case getCompact c of
  Box a -> a
  NoBox -> unsafePure (bug "a region without a value")

-- | The size of the region in memory.
--
-- [Units]: bytes.
regionBytes :: Region a -> IO Int
regionBytes (Region c) = fromIntegral <$> compactSize c

-- The message of a region. The fields that must be equal on both sides come first.
data Wire = Wire !ProgramFingerprint !CodeAddress !Word64 !Word64 !String !Word64 ![Block]
  deriving stock (Generic)
  deriving anyclass (Message)

-- A block of a region: its address and its contents.
data Block = Block !Word64 !ByteString
  deriving stock (Generic)
  deriving anyclass (Message)

-- | Works between processes with their code at the same addresses; the type is checked.
instance Typeable a => Message (Region a) where
  codec = checkedCodec (unsafePure . opened) (unsafePure . closed) codec

-- The blocks are sent in place; their byte strings keep the region alive.
closed :: forall a. Typeable a => Region a -> IO Wire
closed (Region c) = do
  unlessShared "send"
  withSerializedCompact c $ \serialized -> do
    blocks <- mapM block (serializedCompactBlockList serialized)
    let Fingerprint x y = typeRepFingerprint (typeRep (Proxy @a))
        root = word (serializedCompactRoot serialized)
    unless (root `inside` blocks) (bug "the root of a region lies outside of it")
    pure (Wire thisProgram codeAddress x y (show (typeRep (Proxy @a))) root blocks)
  where
    block (p, n) = do
      memory <- Concurrent.newForeignPtr (castPtr p) (void (compactSize c))
      pure (Block (word p) (Bytes.fromForeignPtr memory 0 (fromIntegral n)))

-- Whether an address lies in one of the blocks.
inside :: Word64 -> [Block] -> Bool
inside a blocks = or [at <= a && a - at < fromIntegral (Bytes.length bytes) | Block at bytes <- blocks]

word :: Ptr a -> Word64
word p = let IntPtr n = ptrToIntPtr p in fromIntegral n

-- Check the message, then copy it into a new region.
opened :: forall a. Typeable a => Wire -> IO (Either String (Region a))
opened (Wire theirs place x y name root blocks) = do
  sameProgram "recv" "a region" theirs
  unlessShared "recv"
  samePlace
  if Fingerprint x y /= typeRepFingerprint want
    then pure (Left ("expected a region of type " ++ show want ++ ", found one of type " ++ name))
    else
      if not (root `inside` blocks)
        then pure (Left ("expected the root of a region inside of its blocks, found " ++ show root))
        else do
          rest <- newRef [bytes | Block _ bytes <- blocks]
          maybe (Left "expected a compact region, found pointers that lead out of it") (Right . Region)
            <$> importCompact serialized (fill rest)
  where
    want = typeRep (Proxy @a)
    serialized = SerializedCompact [(address at, fromIntegral (Bytes.length bytes)) | Block at bytes <- blocks] (address root)
    address n = intPtrToPtr (IntPtr (fromIntegral n)) :: Ptr b
    -- importCompact asks for the blocks in their order.
    fill rest p n = do
      bytes <- modifyRef rest (\case b : bs -> (bs, b); [] -> ([], Bytes.empty))
      Bytes.unsafeUseAsCStringLen bytes (\(from, m) -> copyBytes (castPtr p) from (min m (fromIntegral n)))
    samePlace
      | place == codeAddress = pure ()
      | otherwise =
        wrong BuildMismatch "recv" $
          "a region of a process whose code lies at " ++ show place ++ ", here it lies at " ++ show codeAddress
            ++ ": link the program without -pie"

unlessShared :: String -> IO ()
unlessShared call
  | placeShared codeAddress = wrong Unsupported call "regions need a program that is linked statically, without -dynamic"
  | otherwise = pure ()
