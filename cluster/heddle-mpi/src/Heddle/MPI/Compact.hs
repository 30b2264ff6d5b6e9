{-# LANGUAGE DeriveAnyClass #-}
{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE TypeApplications #-}

-- |
-- Module      : Heddle.MPI.Compact
-- Description : Large structures as they lie in memory
-- Stability   : experimental
--
-- A 'Region' has a value in a compact region of the heap, fully evaluated. It is sent as it lies
-- there, whatever it is made of, without an instance for its types; sharing in it is kept if it
-- was compacted so. The receiver copies it once, and adjusts its pointers.
--
-- What lies there has addresses of code in it: so it goes only between processes of one
-- executable whose code lies at the same addresses, linked statically and not as a
-- position-independent executable, as GHC does without further options. That is checked before
-- anything is looked at. That the bytes are those that were sent cannot be.
--
-- Functions, mutable objects, and pinned memory (byte strings!) cannot be in a region.
--
-- Cost: 'region', a copy of the value; sending, nothing more; receiving, a copy, and a pass over
-- the pointers: a fifth of the time that cereal takes. But a region is larger, by three times or
-- more, than the message of "Heddle.MPI.Message": where the way is slow, that one is there first.
-- Owner: a region lives for as long as a part of its value does.
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

-- So that the root lies in the region, which that of a value without fields would not. The second
-- constructor, which is never used, keeps GHC from passing on the first one's field instead of
-- it, and making another one outside of the region.
data Box a = Box a | NoBox

-- | Evaluate a value fully, and copy it into a region. What is shared in it is copied as often
-- as it is reached: see 'regionWithSharing'.
--
-- [Cost]: a copy; some bytes for each constructor.
-- [Blocks]: never; it takes the time of a copy.
-- [Throws]: what evaluating the value throws; 'Control.Exception.CompactionFailed' for what cannot be
-- in a region.
region :: a -> IO (Region a)
region a = Region <$> compact (Box a)

-- | 'region', for values with sharing, or with cycles.
--
-- [Cost]: about ten times that of 'region'.
-- [Throws]: as 'region'.
regionWithSharing :: a -> IO (Region a)
regionWithSharing a = Region <$> compactWithSharing (Box a)

-- | The value, where it lies.
--
-- [Cost]: O(1).
regionValue :: Region a -> a
regionValue (Region c) = case getCompact c of
  Box a -> a
  NoBox -> unsafePure (bug "a region without a value")

-- | How much memory it takes.
--
-- [Units]: bytes.
regionBytes :: Region a -> IO Int
regionBytes (Region c) = fromIntegral <$> compactSize c

-- What goes over the wire: what has to be equal comes first.
data Wire = Wire !ProgramFingerprint !CodeAddress !Word64 !Word64 !String !Word64 ![Block]
  deriving stock (Generic)
  deriving anyclass (Message)

-- A block of a region: where it lies, and what is in it.
data Block = Block !Word64 !ByteString
  deriving stock (Generic)
  deriving anyclass (Message)

-- | Between processes whose code lies at the same addresses; the type is checked.
instance Typeable a => Message (Region a) where
  codec = checkedCodec (unsafePure . opened) (unsafePure . closed) codec

-- The blocks are sent from where they lie, which the bytes keep.
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

-- Is it an address in one of these?
inside :: Word64 -> [Block] -> Bool
inside a blocks = or [at <= a && a - at < fromIntegral (Bytes.length bytes) | Block at bytes <- blocks]

word :: Ptr a -> Word64
word p = let IntPtr n = ptrToIntPtr p in fromIntegral n

-- Check, then copy it into a region here.
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
    -- The blocks are asked for in their order.
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
