{-# LANGUAGE MultiParamTypeClasses #-}
{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE QuasiQuotes #-}
{-# LANGUAGE TemplateHaskell #-}
{-# LANGUAGE TypeFamilies #-}
{-# LANGUAGE ViewPatterns #-}
{-# OPTIONS_GHC -Wno-missing-deriving-strategies -Wno-missing-export-lists -Wno-unused-top-binds #-}

-- Yesod's Template Haskell makes declarations without these.

-- | An application written with Yesod: routes, sessions, forms, static files.
module Apps.Yesod (application) where

import Data.Maybe (fromMaybe)
import Data.Text (Text)
import Data.Text qualified as Text
import Network.Wai (Application)
import Text.Read (readMaybe)
import Yesod hiding (Application)
import Yesod.Static

data Site = Site {siteFolder :: FilePath, siteStatic :: Static}

mkYesod
  "Site"
  [parseRoutes|
/            HomeR   GET
/count       CountR  GET
/form        FormR   GET POST
/upload      UploadR POST
/json        JsonR   PUT
/missing     MissingR GET
/fail        FailR   GET
/send        SendR   GET
/source      SourceR GET
/static      StaticR Static siteStatic
|]

instance Yesod Site where
  makeSessionBackend site = Just <$> defaultClientSessionBackend 120 (siteFolder site ++ "/session.aes")
  shouldLogIO _ _ _ = pure False

instance RenderMessage Site FormMessage where
  renderMessage _ _ = defaultFormMessage

getHomeR :: Handler Html
getHomeR = defaultLayout [whamlet|<p>Home of #{Text.pack "Yesod"}|]

getCountR :: Handler Text
getCountR = do
  n <- maybe 0 (fromMaybe (0 :: Int) . readMaybe . Text.unpack) <$> lookupSession "count"
  setSession "count" (Text.pack (show (n + 1)))
  pure (Text.pack (show (n + 1)))

nameForm :: Html -> MForm Handler (FormResult (Text, Int), Widget)
nameForm = renderDivs ((,) <$> areq textField "Name" Nothing <*> areq intField "Age" Nothing)

getFormR, postFormR :: Handler Html
getFormR = do
  (widget, _) <- generateFormPost nameForm
  defaultLayout [whamlet|<form method=post>^{widget}|]
postFormR = do
  ((result, _), _) <- runFormPost nameForm
  case result of
    FormSuccess (name, age) -> defaultLayout [whamlet|<p>#{name} is #{age}|]
    FormFailure errors -> invalidArgs errors
    FormMissing -> invalidArgs ["missing"]

postUploadR :: Handler Text
postUploadR = do
  (fields, files) <- runRequestBody
  contents <- mapM (fileSourceByteString . snd) files
  pure (Text.pack (show (fields, map fst files, contents)))

putJsonR :: Handler Value
putJsonR = do
  numbers <- requireCheckJsonBody
  returnJson (object ["sum" .= sum (numbers :: [Int])])

getMissingR, getFailR :: Handler Text
getMissingR = notFound
getFailR = liftIO (ioError (userError "in a handler"))

getSendR :: Handler TypedContent
getSendR = do
  folder <- siteFolder <$> getYesod
  sendFile "text/x" (folder ++ "/file")

getSourceR :: Handler TypedContent
getSourceR = respondSource "text/plain" (mapM_ (\n -> sendChunkText (Text.pack (show (n :: Int)) <> "\n") >> sendFlush) [1 .. 100])

-- | A site whose session key and files are in a folder.
application :: FilePath -> IO Application
application folder = do
  files <- static folder
  -- As toWaiApp does, but for the log.
  defaultMiddlewaresNoLogging <$> toWaiAppPlain (Site folder files)
