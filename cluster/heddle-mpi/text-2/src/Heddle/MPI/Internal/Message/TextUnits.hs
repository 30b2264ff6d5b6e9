-- |
-- Module      : Heddle.MPI.Internal.Message.TextUnits
-- Description : The bytes of a Text in a message: UTF-8
-- Stability   : internal, exempt from the version policy
--
-- A message has a text in its memory representation, since its sender and its receiver are one program. This is for
-- text 2; the module of the same name in @text-1@ has the same interface.
--
-- Cost: a copy, and a check when it is read.
-- Owner: values.
module Heddle.MPI.Internal.Message.TextUnits
  ( textBytes,
    pokeText,
    peekText,
  )
where

import Data.Bifunctor (first)
import Data.ByteString.Unsafe qualified as ByteString (unsafePackCStringLen)
import Data.Text (Text)
import Data.Text.Encoding (decodeUtf8')
import Data.Text.Foreign qualified as Text (lengthWord8, unsafeCopyToPtr)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr)
import Heddle.Prim.Exception (evaluate)

-- | The length of a text.
--
-- [Units]: bytes.
textBytes :: Text -> Int
textBytes = Text.lengthWord8

-- | Write that many bytes.
pokeText :: Text -> Ptr Word8 -> IO ()
pokeText = Text.unsafeCopyToPtr

-- | The text of this many bytes, or what is wrong with them.
peekText :: Ptr Word8 -> Int -> IO (Either String Text)
peekText from n = do
  bytes <- ByteString.unsafePackCStringLen (castPtr from, n)
  -- Evaluated here, while the memory is there: the text is a copy.
  first (const "expected a Text in UTF-8, found other bytes") <$> evaluate (decodeUtf8' bytes)
