-- |
-- Module      : Heddle.Tls.Subject
-- Description : Who a certificate is for
-- Stability   : hidden; "Heddle.Tls" exports it
--
-- Cost: some microseconds.
-- Owner: values.
module Heddle.Tls.Subject
  ( certificateSubject,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Word (Word8)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, castPtr)
import Heddle.Tls.Library (loadLibrary)

-- | The subject of a certificate in DER, such as 'Heddle.IO.Transport.factPeerCertificate', with its last part first:
-- @CN=client,O=Example,C=SE@. At most 1,024 bytes of it; 'Nothing' if the certificate cannot be read.
--
-- [Cost]: some microseconds: the certificate is parsed; 1 ms more where it is the first use of libssl.
-- [Blocks]: never.
-- [Source]: RFC 2253.
-- [Threads]: any.
certificateSubject :: ByteString -> IO (Maybe ByteString)
certificateSubject der = unsafeUseAsCStringLen der $ \(p, n) -> allocaBytes room $ \to -> do
  loadLibrary
  length' <- c_subject (castPtr p) (fromIntegral n) to (fromIntegral room)
  if length' < 0 then pure Nothing else Just <$> B.packCStringLen (castPtr to, fromIntegral length')
  where
    room = 1024

-- Unsafe: computes for microseconds.
foreign import ccall unsafe "heddle_tls_subject" c_subject :: Ptr Word8 -> CSize -> Ptr Word8 -> CSize -> IO CInt
