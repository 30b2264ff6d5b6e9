{-# LANGUAGE DeriveAnyClass #-}
{-# LANGUAGE DeriveGeneric #-}

-- |
-- Module      : Heddle.MPI.Internal.ProgramFingerprint
-- Description : The identity of the running program
-- Stability   : internal, exempt from the version policy
--
-- Code and its addresses are meaningful only within one program. A program's identity is the MD5
-- digest of its executable, together with that of the keys of its static pointers, because a
-- dynamically linked program has those in other files.
--
-- Cost: reads the executable once, in some milliseconds per megabyte.
-- Owner: the process.
module Heddle.MPI.Internal.ProgramFingerprint
  ( ProgramFingerprint (..),
    thisProgram,
    sameProgram,
    CodeAddress (..),
    codeAddress,
  )
where

import Control.Monad (when)
import Data.List (isInfixOf, sort)
import Data.Word (Word64)
import Foreign.Ptr (FunPtr, castFunPtrToPtr, ptrToIntPtr)
import GHC.Fingerprint (Fingerprint (..), fingerprintFingerprints, getFileHash)
import GHC.Generics (Generic)
import GHC.StaticPtr (staticPtrKeys)
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Message.Class (Message)
import Heddle.Prim.Global (unsafeGlobal)
import Numeric (showHex)

-- | The digests that identify a program.
data ProgramFingerprint = ProgramFingerprint !Word64 !Word64
  deriving stock (Eq, Generic)
  deriving anyclass (Message)

instance Show ProgramFingerprint where
  showsPrec _ (ProgramFingerprint a b) = showString (hex a ++ hex b)
    where
      hex n = let digits = showHex n "" in replicate (16 - length digits) '0' ++ digits

-- | The fingerprint of this program.
thisProgram :: ProgramFingerprint
thisProgram = unsafeGlobal $ do
  executable <- getFileHash "/proc/self/exe"
  keys <- staticPtrKeys
  let Fingerprint a b = fingerprintFingerprints (executable : sort keys)
  pure (ProgramFingerprint a b)
{-# NOINLINE thisProgram #-}

-- | Check that a message comes from this program.
--
-- [Throws]: 'MPIError' of class 'BuildMismatch', with both identities.
sameProgram :: String -> String -> ProgramFingerprint -> IO ()
sameProgram call what theirs =
  when (theirs /= thisProgram) . wrong BuildMismatch call $
    what ++ " of the program " ++ show theirs ++ ", and this is the program " ++ show thisProgram
      ++ ": all ranks have to run the same executable"

-- | Where code lies: the address of a function of this library, and whether Haskell code is in
-- shared libraries, which may lie elsewhere in each process.
data CodeAddress = CodeAddress {placeAddress :: !Word64, placeShared :: !Bool}
  deriving stock (Eq, Generic, Show)
  deriving anyclass (Message)

-- | The code address of this process.
codeAddress :: CodeAddress
codeAddress = unsafeGlobal $ do
  maps <- readFile "/proc/self/maps"
  let shared = any ("/libHS" `isInfixOf`) (lines maps)
  pure (CodeAddress (fromIntegral (ptrToIntPtr (castFunPtrToPtr p_begin))) shared)
{-# NOINLINE codeAddress #-}

foreign import ccall "&heddle_mpi_begin" p_begin :: FunPtr (IO ())
